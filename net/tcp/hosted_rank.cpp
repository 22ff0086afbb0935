#include "net/tcp/hosted_rank.hpp"

#include <stdexcept>

#include <boost/asio/post.hpp>

#include "kernels/copy.hpp"
#include "net/hand_over.hpp"

namespace sluice::net {

namespace asio = boost::asio;

void hosted_rank::listen(endpoint_events events) {
  std::vector<transfer> arrived;
  std::vector<std::string> failures;
  {
    const std::lock_guard lock(guard_);
    events_ = std::move(events);
    listening_ = true;
    arrived.swap(early_);
    failures.swap(early_failures_);
  }
  for (const auto& each : arrived)
    events_.arrived(each);
  for (const auto& each : failures)
    events_.failed(each);
}

void hosted_rank::send(const transfer& what, kernels::tensor_list tensors) {
  if (const auto near = neighbours_.find(what.to); near != neighbours_.end()) {
    near->second->deliver(what, std::move(tensors));
    return;
  }
  const auto found = senders_.find(edge_of(what));
  if (found == senders_.end())
    throw std::logic_error(to_string(what) + ": the run has no such edge");
  for (auto& each : tensors)
    if (each && !each.where()->is_host())
      each = kernels::transferred(outgoing_, each);
  asio::post(io_, [to = found->second, what, tensors = std::move(tensors)]() mutable {
    to->send(what, std::move(tensors));
  });
}

kernels::tensor_list hosted_rank::take(const transfer& what, kernels::buffer_pool& pool) {
  auto tensors = hand_over(inbox_.take(what), pool);
  grant(what); // Last: until here they were counted at the slot.
  return tensors;
}

void hosted_rank::forget(std::uint64_t epoch) {
  for (const auto& dropped : inbox_.forget(epoch))
    grant(dropped);
  asio::post(io_, [this, epoch] {
    for (const auto& [which, each] : senders_)
      each->forget(epoch);
  });
}

void hosted_rank::deliver(const transfer& what, kernels::tensor_list tensors) {
  if (!inbox_.put(what, std::move(tensors))) {
    grant(what); // Of a forgotten epoch: nobody will take it.
    return;
  }
  {
    const std::lock_guard lock(guard_);
    if (!listening_) {
      early_.push_back(what);
      return;
    }
  }
  events_.arrived(what);
}

void hosted_rank::fail(const std::string& what) {
  {
    const std::lock_guard lock(guard_);
    if (!listening_) {
      early_failures_.push_back(what);
      return;
    }
  }
  events_.failed(what);
}

/// Gives the sender the slot back that a transfer from another process has held.
void hosted_rank::grant(const transfer& freed) {
  const auto found = receivers_.find(edge_of(freed));
  if (found != receivers_.end())
    asio::post(io_, [from = found->second] { from->grant(1); });
}

} // namespace sluice::net
