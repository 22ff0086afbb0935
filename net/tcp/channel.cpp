#include "net/tcp/channel.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace sluice::net {

channel::channel(const net::edge& of, std::string peer, frame_reader end,
                 kernels::buffer_pool* into, surroundings& around)
  : edge_(of),
    peer_(std::move(peer)),
    around_(around),
    decoder_(of, end, around.limits, into) {}

void channel::attach(std::unique_ptr<wire> to, std::vector<std::byte> first) {
  if (state_ != state::waiting)
    return; // The network ended in the meantime.
  wire_ = std::move(to);
  first_ = std::move(first);
  state_ = state::open;
  read();
  kick();
}

// -- reading -----------------------------------------------------------------------------------

void channel::read() {
  reading_ = true;
  wire_->async_read_some(decoder_.wanted(), [this](const error_code& problem, std::size_t bytes) {
    reading_ = false;
    on_read(problem, bytes);
    settle();
  });
}

void channel::on_read(const error_code& problem, std::size_t bytes) {
  if (state_ == state::closed)
    return;
  if (problem) {
    on_broken(problem);
    return;
  }
  switch (decoder_.advance(bytes)) {
  case progress::more:
    break;
  case progress::refused:
    fail(decoder_.reason());
    return;
  case progress::complete: {
    auto got = decoder_.take();
    if (got.kind == frame_kind::leave) {
      peer_left_ = state_ == state::open;
      peer_left();
      close();
      return;
    }
    if (state_ == state::open)
      received(std::move(got));
    break;
  }
  }
  if (state_ != state::closed)
    read();
}

void channel::on_broken(const error_code& problem) {
  const auto reason = reason_of(problem);
  if (const auto* cut = decoder_.under_way())
    fail(fmt::format("{} in the middle of {}", reason, to_string(*cut)));
  else if (!encoder_.done() && encoder_.current().kind == frame_kind::data)
    fail(fmt::format("{} while {} was being sent", reason, to_string(encoder_.current().what)));
  else
    fail(reason);
}

// -- writing -----------------------------------------------------------------------------------

void channel::kick() {
  if (writing_ || (state_ != state::open && state_ != state::leaving))
    return;
  if (first_.empty()) {
    frame what;
    if (next(what)) {
      encoder_.start(std::move(what), around_.checksum);
    } else if (state_ == state::leaving) {
      encoder_.start({frame_kind::leave, {}, {}, 0}, false);
    } else {
      return;
    }
  }
  write();
}

void channel::write() {
  buffers_.clear();
  if (!first_.empty())
    buffers_.emplace_back(first_.data(), first_.size());
  else
    for (const auto& part : encoder_.pending())
      buffers_.emplace_back(part.data(), part.size());
  writing_ = true;
  wire_->async_write_some(buffers_, [this](const error_code& problem, std::size_t bytes) {
    writing_ = false;
    on_written(problem, bytes);
    settle();
  });
}

void channel::on_written(const error_code& problem, std::size_t bytes) {
  if (state_ == state::closed)
    return;
  if (problem) {
    on_broken(problem);
    return;
  }
  if (!first_.empty()) {
    first_.erase(first_.begin(), first_.begin() + static_cast<std::ptrdiff_t>(bytes));
    if (!first_.empty()) {
      write();
      return;
    }
  } else {
    encoder_.consume(bytes);
    if (!encoder_.done()) {
      write();
      return;
    }
    if (encoder_.current().kind == frame_kind::leave) {
      state_ = state::farewell_written;
      wire_->end_output();
      return;
    }
  }
  kick();
}

// -- the end -----------------------------------------------------------------------------------

void channel::fail(const std::string& reason) {
  const bool news = state_ == state::open;
  close();
  if (news)
    around_.failed(*this, reason);
}

void channel::fail_late(const std::string& reason) {
  if (std::exchange(peer_left_, false))
    around_.failed(*this, reason);
}

void channel::leave() {
  if (state_ == state::open) {
    state_ = state::leaving;
    kick();
  } else if (state_ == state::waiting) {
    close();
  }
}

void channel::close() {
  if (state_ == state::closed)
    return;
  state_ = state::closed;
  if (wire_)
    wire_->close();
  drop_queue();
  settle();
}

/// Tells once that the channel is closed and its handlers have run.
void channel::settle() {
  if (state_ != state::closed || reading_ || writing_ || settled_)
    return;
  settled_ = true;
  encoder_ = {}; // Drops the tensors of a frame that was cut.
  around_.closed(*this);
}

// -- the sending end ---------------------------------------------------------------------------

void send_channel::attach(std::unique_ptr<wire> to, std::uint32_t slots) {
  slots_ = free_slots_ = slots;
  channel::attach(std::move(to), {});
}

void send_channel::send(const transfer& what, kernels::tensor_list tensors) {
  if (attached() && !open()) {
    fail_late(fmt::format("the peer left before {}", to_string(what)));
    return;
  }
  queue_.push_back({what, std::move(tensors)});
  kick();
}

void send_channel::forget(std::uint64_t epoch) {
  std::erase_if(queue_, [&](const auto& each) { return each.what.epoch <= epoch; });
}

bool send_channel::next(frame& to) {
  if (queue_.empty() || free_slots_ == 0)
    return false;
  --free_slots_;
  to = {frame_kind::data, queue_.front().what, std::move(queue_.front().tensors), 0};
  queue_.pop_front();
  return true;
}

void send_channel::received(frame what) {
  // Compared so that a sum of the two cannot overflow.
  if (what.slots > slots_ - free_slots_) {
    fail(fmt::format("{} slots granted where {} were taken", what.slots, slots_ - free_slots_));
    return;
  }
  free_slots_ += what.slots;
  kick();
}

void send_channel::peer_left() {
  if (!encoder().done() && encoder().current().kind == frame_kind::data)
    fail_late(
      fmt::format("the peer left while {} was being sent", to_string(encoder().current().what)));
  else if (!queue_.empty())
    fail_late(fmt::format("the peer left before {}", to_string(queue_.front().what)));
}

// -- the receiving end -------------------------------------------------------------------------

void receive_channel::attach(std::unique_ptr<wire> to, std::uint32_t slots,
                             std::vector<std::byte> answer) {
  decoder().add_slots(slots);
  channel::attach(std::move(to), std::move(answer));
}

void receive_channel::grant(std::uint32_t slots) {
  decoder().add_slots(slots);
  grants_due_ += slots;
  kick();
}

bool receive_channel::next(frame& to) {
  if (grants_due_ == 0)
    return false;
  to = {frame_kind::grant, {}, {}, std::exchange(grants_due_, 0)};
  return true;
}

void receive_channel::received(frame what) {
  try {
    arrived_(std::move(what));
  } catch (const std::logic_error& problem) {
    fail(problem.what()); // It came twice.
  }
}

} // namespace sluice::net
