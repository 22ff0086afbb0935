#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/buffer.hpp>

#include "net/frame.hpp"
#include "net/tcp/wire.hpp"

namespace sluice::net {

/// One end of an edge between two processes: reads frames, and writes them one at a time.
/// Thread: the network's. It must outlive the handlers of its connection.
class channel {
public:
  /// What all channels of a network have in common.
  struct surroundings {
    frame_limits limits;
    bool checksum = false;
    std::function<void(channel&, const std::string& reason)> failed; ///< once for a channel
    std::function<void(channel&)> closed; ///< once: nothing is under way any more
  };

  channel(const edge& of, std::string peer, frame_reader end, kernels::buffer_pool* into,
          surroundings& around);
  virtual ~channel() = default;
  channel(const channel&) = delete;
  channel& operator=(const channel&) = delete;

  const net::edge& edge() const noexcept { return edge_; }
  const std::string& peer() const noexcept { return peer_; }
  bool attached() const noexcept { return wire_ != nullptr; }
  /// Closed, and no handler of it is to come.
  bool settled() const noexcept { return settled_; }

  /// Starts to read and write. first: bytes to write ahead of all frames.
  void attach(std::unique_ptr<wire> to, std::vector<std::byte> first);

  /// Sends what can be sent, says farewell, and waits for the peer to close.
  void leave();

  /// Ends at once, without farewell.
  void close();

protected:
  /// The next frame to write, if there is one.
  virtual bool next(frame& to) = 0;
  virtual void received(frame what) = 0;
  /// The peer has said farewell.
  virtual void peer_left() {}
  /// Nothing more will be written.
  virtual void drop_queue() {}

  /// Writes the next frame unless one is being written.
  void kick();
  void fail(const std::string& reason);
  /// Reports, once, that something was meant for a peer that had said farewell.
  void fail_late(const std::string& reason);
  bool open() const noexcept { return state_ == state::open; }
  const frame_encoder& encoder() const noexcept { return encoder_; }
  frame_decoder& decoder() noexcept { return decoder_; }
  bool with_checksum() const noexcept { return around_.checksum; }

private:
  // A channel that has written its farewell only waits for the peer to close.
  enum class state : std::uint8_t { waiting, open, leaving, farewell_written, closed };

  void read();
  void on_read(const error_code& problem, std::size_t bytes);
  void on_broken(const error_code& problem);
  void write();
  void on_written(const error_code& problem, std::size_t bytes);
  void settle();

  net::edge edge_;
  std::string peer_;
  surroundings& around_;
  frame_decoder decoder_;
  frame_encoder encoder_;
  std::unique_ptr<wire> wire_;
  state state_ = state::waiting;
  bool reading_ = false;
  bool writing_ = false;
  bool peer_left_ = false;
  bool settled_ = false;
  std::vector<std::byte> first_;
  std::vector<boost::asio::const_buffer> buffers_;
};

/// The sending end: a queue of transfers, and the receiver's free slots.
class send_channel final : public channel {
public:
  send_channel(const net::edge& of, std::string peer, surroundings& around)
    : channel(of, std::move(peer), frame_reader::sender, nullptr, around) {}

  /// slots: all that the receiver has.
  void attach(std::unique_ptr<wire> to, std::uint32_t slots);

  void send(const transfer& what, kernels::tensor_list tensors);

  /// Drops what waits of `epoch` and earlier. What is being written goes on to its end.
  void forget(std::uint64_t epoch);

private:
  bool next(frame& to) override;
  void received(frame what) override;
  void peer_left() override;
  void drop_queue() override { queue_.clear(); }

  struct waiting {
    transfer what;
    kernels::tensor_list tensors;
  };
  std::deque<waiting> queue_;
  std::uint32_t slots_ = 0;
  std::uint32_t free_slots_ = 0;
};

/// The receiving end.
class receive_channel final : public channel {
public:
  receive_channel(const net::edge& of, std::string peer, kernels::buffer_pool& into,
                  surroundings& around, std::function<void(frame)> arrived)
    : channel(of, std::move(peer), frame_reader::receiver, &into, around),
      arrived_(std::move(arrived)) {}

  void attach(std::unique_ptr<wire> to, std::uint32_t slots, std::vector<std::byte> answer);

  /// Says that slots became free.
  void grant(std::uint32_t slots);

private:
  bool next(frame& to) override;
  void received(frame what) override;

  std::function<void(frame)> arrived_;
  std::uint32_t grants_due_ = 0;
};

} // namespace sluice::net
