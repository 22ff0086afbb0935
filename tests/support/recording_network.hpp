#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "net/endpoint.hpp"
#include "net/local.hpp"

namespace sluice::tests {

/// A network of an embedder's own: passes everything on to one within the process, and notes what
/// was sent.
class recording_network final : public net::network {
public:
  struct sent {
    net::transfer what;
    std::vector<std::pair<bool, kernels::dtype>> tensors; ///< (is there, type)
  };

  explicit recording_network(std::int32_t ranks) : inner_(net::make_local_network(ranks)) {
    for (std::int32_t rank = 0; rank < ranks; ++rank)
      ends_.push_back(std::make_unique<end>(*this, inner_->at(rank)));
  }

  net::endpoint& at(std::int32_t rank) override {
    return *ends_.at(static_cast<std::size_t>(rank));
  }

  /// All of one kind so far.
  std::vector<sent> of(net::payload kind) {
    const std::lock_guard lock(guard_);
    std::vector<sent> found;
    for (const auto& each : all_)
      if (each.what.payload == kind)
        found.push_back(each);
    return found;
  }

private:
  class end final : public net::endpoint {
  public:
    end(recording_network& of, net::endpoint& inner) : of_(of), inner_(inner) {}

    void listen(net::endpoint_events events) override { inner_.listen(std::move(events)); }
    void send(const net::transfer& what, kernels::tensor_list tensors) override {
      sent note{what, {}};
      for (const auto& each : tensors)
        note.tensors.emplace_back(static_cast<bool>(each), each.type());
      {
        const std::lock_guard lock(of_.guard_);
        of_.all_.push_back(std::move(note));
      }
      inner_.send(what, std::move(tensors));
    }
    kernels::tensor_list take(const net::transfer& what, kernels::buffer_pool& pool) override {
      return inner_.take(what, pool);
    }
    void forget(std::uint64_t epoch) override { inner_.forget(epoch); }

  private:
    recording_network& of_;
    net::endpoint& inner_;
  };

  std::unique_ptr<net::network> inner_;
  std::vector<std::unique_ptr<end>> ends_;
  std::mutex guard_;
  std::vector<sent> all_;
};

} // namespace sluice::tests
