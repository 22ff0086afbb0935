#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "net/checksum.hpp"
#include "net/frame.hpp"
#include "net/frame_layout.hpp"
#include "net/little_endian.hpp"

namespace sluice::net {

using namespace frame_layout;

namespace {

void encode_description(const kernels::tensor& of, std::span<std::byte> at) {
  if (!of)
    return; // All zero.
  put_at<std::uint8_t>(at, present_at, 1);
  put_at(at, type_at, of.type());
  put_at(at, rank_at, static_cast<std::uint8_t>(of.shape().rank()));
  put_at<std::uint64_t>(at, bytes_at, of.bytes());
  for (std::size_t i = 0; i < of.shape().rank(); ++i)
    put_at(at, extents_at + i * sizeof(std::int64_t), of.shape().extents()[i]);
}

} // namespace

void frame_encoder::encode_head(bool checksum) {
  const auto count = frame_.tensors.size();
  const bool data = frame_.kind == frame_kind::data;
  const auto descriptions = data && count > 0 ? count * description_bytes + 4 : 0;
  head_.assign(header_bytes + descriptions, std::byte{0});
  const std::span<std::byte> to(head_);
  put_at(to, 0, magic);
  put_at(to, version_at, protocol_version);
  put_at(to, kind_at, frame_.kind);
  put_at<std::uint8_t>(to, flags_at, checksum ? 1 : 0);
  if (data) {
    put_at(to, epoch_at, frame_.what.epoch);
    put_at(to, from_at, frame_.what.from);
    put_at(to, to_at, frame_.what.to);
    put_at(to, chunk_at, frame_.what.chunk);
    put_at(to, micro_batch_at, frame_.what.micro_batch);
    put_at(to, payload_at, frame_.what.payload);
    put_at(to, tensors_at, static_cast<std::uint8_t>(count));
  }
  put_at(to, slots_at, frame_.slots);
  put_at(to, header_crc_at, crc32c(to.first(header_crc_at)));
  if (descriptions == 0)
    return;
  const auto table = to.subspan(header_bytes);
  for (std::size_t i = 0; i < count; ++i)
    encode_description(frame_.tensors[i], table.subspan(i * description_bytes, description_bytes));
  put_at(table, count * description_bytes, crc32c(table.first(count * description_bytes)));
}

void frame_encoder::start(frame what, bool checksum) {
  if (what.tensors.size() > frame_limits{}.tensors)
    throw std::logic_error(fmt::format("{}: {} tensors, {} at most", to_string(what.what),
                                       what.tensors.size(), frame_limits{}.tensors));
  frame_ = std::move(what);
  checksum_ = checksum && frame_.kind == frame_kind::data;
  encode_head(checksum_);
  parts_.clear();
  ready_.assign(1, head_);
  next_part_ = next_ready_ = 0;
  crc_ = 0;
  done_ = false;
  for (const auto& each : frame_.tensors)
    if (each && each.bytes() > 0)
      parts_.push_back(each.bytes_span());
  if (!checksum_) {
    ready_.insert(ready_.end(), parts_.begin(), parts_.end());
    parts_.clear();
  } else {
    refill();
  }
}

/// Sums the next piece and makes it ready; after the last one the trailer.
void frame_encoder::refill() {
  for (std::size_t room = piece_bytes; room > 0 && next_part_ < parts_.size();) {
    auto& part = parts_[next_part_];
    const auto piece = part.first(std::min(room, part.size()));
    crc_ = crc32c(piece, crc_);
    ready_.push_back(piece);
    room -= piece.size();
    part = part.subspan(piece.size());
    next_part_ += part.empty() ? 1 : 0;
  }
  if (next_part_ == parts_.size()) {
    put_at<std::uint32_t>(trailer_, 0, crc_);
    ready_.push_back(trailer_);
    checksum_ = false;
  }
}

std::span<const std::span<const std::byte>> frame_encoder::pending() {
  return std::span(ready_).subspan(next_ready_);
}

void frame_encoder::consume(std::size_t bytes) {
  while (bytes > 0) {
    auto& first = ready_[next_ready_];
    const auto taken = std::min(bytes, first.size());
    first = first.subspan(taken);
    bytes -= taken;
    next_ready_ += first.empty() ? 1 : 0;
  }
  if (next_ready_ < ready_.size())
    return;
  ready_.clear();
  next_ready_ = 0;
  if (checksum_) {
    refill();
  } else {
    done_ = true;
    frame_.tensors.clear();
  }
}

} // namespace sluice::net
