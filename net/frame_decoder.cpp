#include <algorithm>

#include <fmt/format.h>

#include "net/checksum.hpp"
#include "net/frame.hpp"
#include "net/frame_layout.hpp"
#include "net/little_endian.hpp"

namespace sluice::net {

using namespace frame_layout;

frame_decoder::frame_decoder(const edge& of, frame_reader end, frame_limits limits,
                             kernels::buffer_pool* into)
  : edge_(of),
    end_(end),
    limits_(limits),
    into_(into) {
  limits_.tensors = std::min(limits_.tensors, max_tensors);
  target_ = std::span(buffer_).first(header_bytes);
}

std::span<std::byte> frame_decoder::wanted() noexcept {
  const auto rest = target_.subspan(filled_);
  // To be summed while they are in the cache.
  if (part_ == part::tensor && trailer_)
    return rest.first(std::min(rest.size(), piece_bytes));
  return rest;
}

progress frame_decoder::advance(std::size_t bytes) {
  if (part_ == part::refused)
    return progress::refused;
  if (part_ == part::tensor && trailer_)
    crc_ = crc32c(target_.subspan(filled_, bytes), crc_);
  filled_ += bytes;
  return filled_ < target_.size() ? progress::more : next_part();
}

progress frame_decoder::next_part() {
  switch (part_) {
  case part::header:
    return on_header();
  case part::descriptions:
    return on_descriptions();
  case part::tensor:
    return want_tensor(tensor_ + 1);
  case part::trailer:
    return on_trailer();
  case part::complete:
    return progress::complete;
  case part::refused:
    break;
  }
  return progress::refused;
}

progress frame_decoder::on_header() {
  const std::span<const std::byte> header = target_;
  if (get_at<std::uint32_t>(header, 0) != magic)
    return refuse("no frame begins here");
  if (get_at<std::uint32_t>(header, header_crc_at) != crc32c(header.first(header_crc_at)))
    return refuse("a frame's header is damaged");
  if (const auto version = get_at<std::uint16_t>(header, version_at); version != protocol_version)
    return refuse(
      fmt::format("a frame of protocol version {}, expected {}", version, protocol_version));
  const auto kind = get_at<std::uint8_t>(header, kind_at);
  const auto flags = get_at<std::uint8_t>(header, flags_at);
  if (kind > static_cast<std::uint8_t>(frame_kind::leave) || flags > 1)
    return refuse(fmt::format("a frame of unknown kind {} with flags {}", kind, flags));
  frame_.kind = static_cast<frame_kind>(kind);
  trailer_ = flags == 1;
  switch (frame_.kind) {
  case frame_kind::data:
    return on_data_header();
  case frame_kind::grant:
    frame_.slots = get_at<std::uint32_t>(header, slots_at);
    if (end_ != frame_reader::sender || frame_.slots == 0)
      return refuse("a grant that nobody can give");
    break;
  case frame_kind::leave:
    break;
  }
  return finish();
}

progress frame_decoder::on_data_header() {
  const std::span<const std::byte> header = target_;
  const auto kind = get_at<std::uint8_t>(header, payload_at);
  if (end_ != frame_reader::receiver || kind > static_cast<std::uint8_t>(payload::state))
    return refuse(fmt::format("a data frame of kind {} where none may come", kind));
  frame_.what = {
    get_at<std::uint64_t>(header, epoch_at), static_cast<payload>(kind),
    get_at<std::int32_t>(header, from_at),   get_at<std::int32_t>(header, to_at),
    get_at<std::int32_t>(header, chunk_at),  get_at<std::int32_t>(header, micro_batch_at)};
  if (edge_of(frame_.what) != edge_)
    return refuse(
      fmt::format("{} came where {} are expected", to_string(frame_.what), to_string(edge_)));
  count_ = get_at<std::uint8_t>(header, tensors_at);
  if (count_ > limits_.tensors)
    return refuse(
      fmt::format("{}: {} tensors, {} at most", to_string(frame_.what), count_, limits_.tensors));
  if (slots_ == 0)
    return refuse(fmt::format("{} was sent without a receive slot", to_string(frame_.what)));
  --slots_;
  crc_ = 0;
  if (count_ == 0)
    return want_tensor(0);
  part_ = part::descriptions;
  target_ = std::span(buffer_).first(count_ * description_bytes + 4);
  filled_ = 0;
  return progress::more;
}

progress frame_decoder::on_descriptions() {
  const std::span<const std::byte> table = target_;
  if (get_at<std::uint32_t>(table, count_ * description_bytes)
      != crc32c(table.first(count_ * description_bytes)))
    return refuse(fmt::format("{}: damaged descriptions", to_string(frame_.what)));
  // All are checked before the first buffer is allocated.
  std::uint64_t total_bytes = 0;
  for (std::size_t i = 0; i < count_; ++i)
    if (on_description(table.subspan(i * description_bytes, description_bytes), total_bytes)
        == progress::refused)
      return progress::refused;
  try {
    for (std::size_t i = 0; i < count_; ++i) {
      const auto text = table.subspan(i * description_bytes, description_bytes);
      auto& to = frame_.tensors.emplace_back();
      if (get_at<std::uint8_t>(text, present_at) == 0)
        continue;
      std::array<std::int64_t, kernels::shape::max_rank> extents;
      for (std::size_t d = 0; d < extents.size(); ++d)
        extents[d] = get_at<std::int64_t>(text, extents_at + d * sizeof(std::int64_t));
      const auto rank = get_at<std::uint8_t>(text, rank_at);
      to = into_->allocate(get_at<kernels::dtype>(text, type_at),
                           kernels::shape(std::span<const std::int64_t>(extents).first(rank)));
      to.set_use(kernels::buffer_use::transfer);
    }
  } catch (const std::bad_alloc& problem) {
    return refuse(fmt::format("{}: {}", to_string(frame_.what), problem.what()));
  }
  return want_tensor(0);
}

progress frame_decoder::on_description(std::span<const std::byte> text,
                                       std::uint64_t& total_bytes) {
  const auto present = get_at<std::uint8_t>(text, present_at);
  const auto type = get_at<std::uint8_t>(text, type_at);
  const auto rank = get_at<std::uint8_t>(text, rank_at);
  const auto bytes = get_at<std::uint64_t>(text, bytes_at);
  if (present > 1 || type > static_cast<std::uint8_t>(kernels::dtype::bfloat16)
      || rank > kernels::shape::max_rank || (present == 0 && bytes != 0))
    return refuse(fmt::format("{}: an impossible tensor (present {}, type {}, rank {})",
                              to_string(frame_.what), present, type, rank));
  if (present == 0)
    return progress::more;
  // No product of a few extents may overflow, not even beside one that is zero.
  const auto limit = limits_.bytes;
  std::uint64_t product = kernels::size_bytes(static_cast<kernels::dtype>(type));
  bool empty = false;
  for (std::size_t d = 0; d < rank; ++d) {
    const auto extent = get_at<std::int64_t>(text, extents_at + d * sizeof(std::int64_t));
    empty = empty || extent == 0;
    if (extent < 0
        || (extent > 0 && static_cast<std::uint64_t>(extent) > limit / std::max(product, 1UL)))
      return refuse(fmt::format("{}: an extent of {} in a frame of {} bytes at most",
                                to_string(frame_.what), extent, limit));
    product *= extent > 0 ? static_cast<std::uint64_t>(extent) : 1;
  }
  if (bytes != (empty ? 0 : product))
    return refuse(fmt::format("{}: a tensor of {} bytes announced as {}", to_string(frame_.what),
                              empty ? 0 : product, bytes));
  total_bytes += bytes;
  if (total_bytes > limit)
    return refuse(
      fmt::format("{}: {} bytes and more, {} at most", to_string(frame_.what), total_bytes, limit));
  return progress::more;
}

/// Goes on with the first tensor from `first` on that has bytes, or else with the trailer.
progress frame_decoder::want_tensor(std::size_t first) {
  filled_ = 0;
  for (tensor_ = first; tensor_ < frame_.tensors.size(); ++tensor_) {
    auto& each = frame_.tensors[tensor_];
    if (!each || each.bytes() == 0)
      continue;
    part_ = part::tensor;
    target_ = each.bytes_span();
    return progress::more;
  }
  if (!trailer_)
    return finish();
  part_ = part::trailer;
  target_ = std::span(buffer_).first(sizeof crc_);
  return progress::more;
}

progress frame_decoder::on_trailer() {
  if (get_at<std::uint32_t>(target_, 0) != crc_)
    return refuse(fmt::format("{}: the checksum does not match", to_string(frame_.what)));
  return finish();
}

progress frame_decoder::finish() {
  part_ = part::complete;
  target_ = {};
  filled_ = 0;
  return progress::complete;
}

progress frame_decoder::refuse(std::string reason) {
  reason_ = std::move(reason);
  frame_ = {};
  part_ = part::refused;
  target_ = {};
  filled_ = 0;
  return progress::refused;
}

frame frame_decoder::take() {
  part_ = part::header;
  target_ = std::span(buffer_).first(header_bytes);
  filled_ = 0;
  return std::exchange(frame_, {});
}

bool frame_decoder::between_frames() const noexcept {
  return part_ == part::header && filled_ == 0;
}

const transfer* frame_decoder::under_way() const noexcept {
  const bool in_data =
    part_ == part::descriptions || part_ == part::tensor || part_ == part::trailer;
  return in_data ? &frame_.what : nullptr;
}

} // namespace sluice::net
