#pragma once

#include <cstdint>

namespace sluice::stress {

/// A number that depends on its arguments alone, spread evenly over 64 bits: what a trial's times
/// and bugs are drawn by, whatever the order in which the actors ask.
/// Source: the finaliser of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
/// generators, 2014).
constexpr std::uint64_t draw(std::uint64_t seed) {
  seed += 0x9e3779b97f4a7c15;
  seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9;
  seed = (seed ^ (seed >> 27)) * 0x94d049bb133111eb;
  return seed ^ (seed >> 31);
}

template <class... More>
constexpr std::uint64_t draw(std::uint64_t seed, std::uint64_t first, More... more) {
  return draw(draw(seed) ^ first, static_cast<std::uint64_t>(more)...);
}

} // namespace sluice::stress
