#pragma once

#include <cstdint>

// In place of tests/emulation where the tests of kernels run on a real GPU: what they ask of the
// emulation does nothing here.

namespace sluice::emulation {

enum class lane_order : std::uint8_t { forward, reverse, random };
inline void set_lane_order(lane_order, std::uint64_t = 1) {}
inline long violations() {
  return 0;
}

namespace test {
struct session {
  session() {} // so that nobody takes it for unused
};
} // namespace test

} // namespace sluice::emulation
