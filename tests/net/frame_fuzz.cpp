// libFuzzer's target for what strangers can send: greetings, and the frames of either direction.
// The first bytes choose the decoder, the size of the pieces and whether checksums are made right,
// since no fuzzer guesses those.

#include <algorithm>
#include <vector>

#include "net/checksum.hpp"
#include "net/frame.hpp"
#include "net/frame_layout.hpp"
#include "net/handshake.hpp"
#include "net/little_endian.hpp"

using namespace sluice;
using namespace sluice::net;

namespace {

constexpr edge expected{payload::activation, 0, 1, 1};
constexpr frame_limits limits{.tensors = 8, .bytes = 1 << 16};

void repair(std::vector<std::byte>& bytes) {
  using namespace frame_layout;
  const std::span all(bytes);
  if (all.size() < header_bytes)
    return;
  put_at(all, header_crc_at, crc32c(all.first(header_crc_at)));
  const auto table_bytes = get_at<std::uint8_t>(all, tensors_at) * description_bytes;
  if (all.size() >= header_bytes + table_bytes + 4)
    put_at(all, header_bytes + table_bytes, crc32c(all.subspan(header_bytes, table_bytes)));
}

template <class Decoder, class OnComplete>
void run(Decoder& decoder, std::span<const std::byte> bytes, std::size_t piece,
         OnComplete on_complete) {
  while (!bytes.empty()) {
    const auto to = decoder.wanted();
    if (to.empty())
      __builtin_trap(); // A decoder that goes on wants something.
    const auto some = std::min({piece, to.size(), bytes.size()});
    std::ranges::copy(bytes.first(some), to.begin());
    bytes = bytes.subspan(some);
    switch (decoder.advance(some)) {
    case progress::more:
      break;
    case progress::refused:
      return;
    case progress::complete:
      if (!on_complete())
        return;
    }
  }
}

void run_frames(frame_reader end, std::span<const std::byte> bytes, std::size_t piece) {
  kernels::buffer_pool pool(kernels::make_cpu_device());
  frame_decoder decoder(expected, end, limits, &pool);
  decoder.add_slots(4);
  run(decoder, bytes, piece, [&] {
    decoder.take();
    return true;
  });
  if (pool.usage().device_bytes > 8 * limits.bytes)
    __builtin_trap();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  if (input.size() < 2)
    return 0;
  const auto choice = std::to_integer<unsigned>(input[0]);
  const auto piece = 1 + std::to_integer<std::size_t>(input[1]);
  std::vector<std::byte> bytes(input.begin() + 2, input.end());
  if ((choice & 4) != 0)
    repair(bytes);
  const auto once = [] { return false; };
  switch (choice & 3) {
  case 0:
    run_frames(frame_reader::receiver, bytes, piece);
    break;
  case 1:
    run_frames(frame_reader::sender, bytes, piece);
    break;
  case 2: {
    hello_decoder decoder;
    run(decoder, bytes, piece, once);
    break;
  }
  case 3: {
    answer_decoder decoder;
    run(decoder, bytes, piece, once);
    break;
  }
  }
  return 0;
}
