#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/buffer_pool.hpp"
#include "kernels/tensor.hpp"
#include "net/edge.hpp"

namespace sluice::net {

// What passes over a stream once its two ends have greeted each other (handshake.hpp). All numbers
// are little-endian.
//
//   header, 48 bytes                             description of a tensor, 64 bytes
//    0  u32  magic "SLF1"                         0  u8   present: 0 or 1
//    4  u16  protocol version                     1  u8   element type
//    6  u8   kind                                 2  u8   rank
//    7  u8   1: a trailer follows                 3       5 bytes of zero
//    8  u64  epoch                                8  u64  bytes
//   16  i32  from, to, chunk, micro-batch        16  i64  extents, 6 of them, unused ones zero
//   32  u8   payload kind
//   33  u8   number of tensors                   A data frame: header, one description for each
//   34  u16  zero                                tensor, u32 CRC-32C of the descriptions, the
//   36  u32  slots (grant)                       tensors' bytes one after the other, and with a
//   40  u32  zero                                trailer u32 CRC-32C of the tensors' bytes.
//   44  u32  CRC-32C of the bytes before         A grant or a leave: the header alone.

/// Raised with every change of what is written above or in handshake.hpp.
inline constexpr std::uint16_t protocol_version = 1;

enum class frame_kind : std::uint8_t {
  data,  ///< a transfer, from the sending end
  grant, ///< receive slots that became free, from the receiving end
  leave, ///< from either end: nothing follows, and that is no fault
};

struct frame {
  frame_kind kind = frame_kind::data;
  transfer what = {};                ///< of data
  kernels::tensor_list tensors = {}; ///< of data; some may be absent
  std::uint32_t slots = 0;           ///< of grant
};

/// What a data frame may ask for; checked before anything is allocated.
struct frame_limits {
  std::size_t tensors = 64;                 ///< 64 at most
  std::size_t bytes = std::size_t{1} << 32; ///< of all tensors together
};

/// Turns one frame after the other into the bytes to write. Holds the frame's tensors until it is
/// done; their bytes are written from where they lie.
/// Thread: one at a time.
class frame_encoder {
public:
  /// Errors: std::logic_error for more than 64 tensors. checksum: with a trailer.
  void start(frame what, bool checksum);

  /// What to write next, in this order; empty when the frame is done.
  std::span<const std::span<const std::byte>> pending();

  /// Says that the first `bytes` of pending() were written. Drops the tensors after the last.
  void consume(std::size_t bytes);

  bool done() const noexcept { return done_; }
  const frame& current() const noexcept { return frame_; }

private:
  void encode_head(bool checksum);
  void refill();

  frame frame_;
  bool done_ = true;
  bool checksum_ = false;
  std::uint32_t crc_ = 0;
  std::vector<std::byte> head_; ///< header and descriptions
  std::array<std::byte, 4> trailer_{};
  std::vector<std::span<const std::byte>> parts_; ///< not yet among ready_, in order
  std::size_t next_part_ = 0;
  std::vector<std::span<const std::byte>> ready_; ///< may be written
  std::size_t next_ready_ = 0;
};

/// Which end of an edge reads.
enum class frame_reader : std::uint8_t {
  receiver, ///< gets data
  sender,   ///< gets grants
};

/// What a decoder has come to.
enum class progress : std::uint8_t { more, complete, refused };

/// Turns bytes back into frames, cut anywhere. Does no input itself: read into wanted(), then
/// advance(). Tensors' bytes are wanted straight where they will stay, in buffers of the pool.
///
/// It trusts nothing: what is not a frame of this edge within the limits is refused before
/// anything is allocated for it, and a refused stream stays refused.
/// Thread: one at a time. Errors: none thrown; see reason().
class frame_decoder {
public:
  /// into: for the tensors; may be null for a sender. slots: see add_slots().
  frame_decoder(const edge& of, frame_reader end, frame_limits limits, kernels::buffer_pool* into);

  /// Where the next bytes go; never empty unless a frame is complete or the stream refused.
  std::span<std::byte> wanted() noexcept;

  /// Says that the first `bytes` of wanted() were read.
  progress advance(std::size_t bytes);

  /// The complete frame. The decoder then waits for the next one.
  frame take();

  /// A data frame for which there is no slot is refused; each takes one.
  void add_slots(std::uint32_t slots) noexcept { slots_ += slots; }

  /// Why the stream was refused.
  const std::string& reason() const noexcept { return reason_; }

  /// Whether the stream is between two frames, so that an end here cuts none.
  bool between_frames() const noexcept;

  /// The data frame under way, once its header is in; else null.
  const transfer* under_way() const noexcept;

private:
  enum class part : std::uint8_t { header, descriptions, tensor, trailer, complete, refused };

  progress next_part();
  progress on_header();
  progress on_data_header();
  progress on_descriptions();
  progress on_description(std::span<const std::byte> text, std::uint64_t& total_bytes);
  progress want_tensor(std::size_t first);
  progress on_trailer();
  progress finish();
  progress refuse(std::string reason);

  static constexpr std::size_t max_tensors = 64;

  edge edge_;
  frame_reader end_;
  frame_limits limits_;
  kernels::buffer_pool* into_;
  std::uint32_t slots_ = 0;

  part part_ = part::header;
  std::span<std::byte> target_;
  std::size_t filled_ = 0;
  std::array<std::byte, max_tensors * 64 + 4> buffer_{}; ///< header, descriptions or trailer
  frame frame_;
  std::size_t count_ = 0; ///< tensors of the frame
  std::size_t tensor_ = 0;
  bool trailer_ = false;
  std::uint32_t crc_ = 0;
  std::string reason_;
};

} // namespace sluice::net
