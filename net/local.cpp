#include "net/local.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "net/hand_over.hpp"
#include "net/inbox.hpp"

namespace sluice::net {

namespace {

class local_endpoint final : public endpoint {
public:
  explicit local_endpoint(network& of) : network_(of) {}

  void listen(endpoint_events events) override { events_ = std::move(events); }

  void send(const transfer& what, kernels::tensor_list tensors) override {
    static_cast<local_endpoint&>(network_.at(what.to)).deliver(what, std::move(tensors));
  }

  kernels::tensor_list take(const transfer& what, kernels::buffer_pool& pool) override {
    return hand_over(inbox_.take(what), pool);
  }

  void forget(std::uint64_t epoch) override { inbox_.forget(epoch); }

private:
  void deliver(const transfer& what, kernels::tensor_list tensors) {
    if (inbox_.put(what, std::move(tensors)))
      events_.arrived(what);
  }

  network& network_;
  endpoint_events events_;
  inbox inbox_;
};

class local_network final : public network {
public:
  explicit local_network(std::int32_t ranks) {
    for (std::int32_t rank = 0; rank < ranks; ++rank)
      ends_.push_back(std::make_unique<local_endpoint>(*this));
  }

  endpoint& at(std::int32_t rank) override { return *ends_.at(static_cast<std::size_t>(rank)); }

private:
  std::vector<std::unique_ptr<local_endpoint>> ends_;
};

} // namespace

std::unique_ptr<network> make_local_network(std::int32_t ranks) {
  return std::make_unique<local_network>(ranks);
}

} // namespace sluice::net
