#include "net/inbox.hpp"

#include <algorithm>
#include <stdexcept>

#include <boost/functional/hash.hpp>

namespace sluice::net {

std::size_t inbox::hash::operator()(const transfer& what) const noexcept {
  std::size_t seed = what.epoch;
  boost::hash_combine(seed, static_cast<std::uint8_t>(what.payload));
  boost::hash_combine(seed, what.from);
  boost::hash_combine(seed, what.chunk);
  boost::hash_combine(seed, what.micro_batch);
  return seed;
}

bool inbox::put(const transfer& what, kernels::tensor_list tensors) {
  const std::lock_guard lock(guard_);
  if (what.epoch <= forgotten_)
    return false;
  if (!arrived_.emplace(what, std::move(tensors)).second)
    throw std::logic_error("arrived twice: " + to_string(what));
  return true;
}

kernels::tensor_list inbox::take(const transfer& what) {
  const std::lock_guard lock(guard_);
  const auto found = arrived_.find(what);
  if (found == arrived_.end())
    throw std::logic_error("not here: " + to_string(what));
  auto tensors = std::move(found->second);
  arrived_.erase(found);
  return tensors;
}

std::vector<transfer> inbox::forget(std::uint64_t epoch) {
  const std::lock_guard lock(guard_);
  forgotten_ = std::max(forgotten_, epoch);
  std::vector<transfer> dropped;
  std::erase_if(arrived_, [&](const auto& entry) {
    if (entry.first.epoch > forgotten_)
      return false;
    dropped.push_back(entry.first);
    return true;
  });
  return dropped;
}

} // namespace sluice::net
