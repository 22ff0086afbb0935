#pragma once

#include <algorithm>
#include <optional>
#include <random>

#include "net/frame.hpp"
#include "tests/net/fixtures.hpp"

namespace sluice::net::test {

/// The bytes of one frame as they go over a stream.
inline std::vector<std::byte> encoded(frame what, bool checksum = false) {
  frame_encoder encoder;
  encoder.start(std::move(what), checksum);
  std::vector<std::byte> result;
  while (!encoder.done()) {
    const auto part = encoder.pending().front();
    result.insert(result.end(), part.begin(), part.end());
    encoder.consume(part.size());
  }
  return result;
}

/// Feeds a decoder bytes, `cut()` at a time, until a frame is complete or the stream is refused or
/// they end. What was not used stays in `bytes`.
template <class Decoder, class Cut>
progress feed(Decoder& decoder, std::span<const std::byte>& bytes, Cut cut) {
  auto state = progress::more;
  while (state == progress::more && !bytes.empty()) {
    const auto to = decoder.wanted();
    const auto some = std::min({static_cast<std::size_t>(cut()), to.size(), bytes.size()});
    std::ranges::copy(bytes.first(some), to.begin());
    bytes = bytes.subspan(some);
    state = decoder.advance(some);
  }
  return state;
}

template <class Decoder>
progress feed(Decoder& decoder, std::span<const std::byte> bytes) {
  return feed(decoder, bytes, [] { return 1 << 20; });
}

/// Tensors of every element type, of every rank, empty ones and absent ones.
inline tensor_list all_kinds_of_tensors(buffer_pool& pool) {
  tensor_list all;
  std::uint8_t value = 1;
  for (const auto type : {dtype::float32, dtype::float64, dtype::int32})
    for (const auto& extents : {shape{}, shape{0}, shape{1}, shape{7}, shape{3, 0, 5}, shape{2, 3},
                                shape{1, 2, 3, 2, 1, 2}, shape{33, 129}}) {
      all.push_back(pool.allocate(type, extents));
      for (auto& each : all.back().bytes_span())
        each = static_cast<std::byte>(value += 7);
      all.emplace_back();
    }
  for (const auto type : {dtype::int64, dtype::boolean, dtype::bfloat16})
    for (const auto& extents : {shape{7}, shape{2, 3}}) {
      all.push_back(pool.allocate(type, extents));
      for (auto& each : all.back().bytes_span())
        each = static_cast<std::byte>((value += 7) & 1);
    }
  return all;
}

} // namespace sluice::net::test
