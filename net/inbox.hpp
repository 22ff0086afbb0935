#pragma once

#include <cstdint>
#include <memory_resource>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "kernels/tensor.hpp"
#include "net/transfer.hpp"

namespace sluice::net {

/// What has arrived at one rank and was not taken yet. Its nodes are recycled, so that after the
/// first step neither put() nor take() allocates.
/// Thread: any.
class inbox {
public:
  /// False for a transfer of a forgotten epoch, which is dropped.
  /// Errors: std::logic_error when one of that name lies here already.
  bool put(const transfer& what, kernels::tensor_list tensors);

  /// Errors: std::logic_error for a transfer that is not here.
  kernels::tensor_list take(const transfer& what);

  /// Drops all of `epoch` and earlier, now and in future. Returns what lay here of them.
  std::vector<transfer> forget(std::uint64_t epoch);

private:
  struct hash {
    std::size_t operator()(const transfer& what) const noexcept;
  };

  std::mutex guard_;
  std::uint64_t forgotten_ = 0;
  std::pmr::unsynchronized_pool_resource nodes_;
  std::pmr::unordered_map<transfer, kernels::tensor_list, hash> arrived_{&nodes_};
};

} // namespace sluice::net
