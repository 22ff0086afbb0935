#pragma once

#include <nccl.h>

#include <exception>
#include <functional>
#include <memory>
#include <thread>

#include "tests/emulation/fixtures.hpp"

namespace sluice::emulation::test {

inline void must(ncclResult_t result) {
  if (result != ncclSuccess)
    throw std::runtime_error(ncclGetErrorString(result));
}

/// A rank of a test: a device, two streams and room for four buffers of 64 floats, all of which
/// hold the rank at first.
struct rank {
  explicit rank(int number) : number(number), first(number), second(number) {
    for (auto& each : buffers) {
      each = std::make_unique<floats>(64, static_cast<float>(number));
      test::must(each->upload(first));
    }
    test::must(first.synchronize());
  }

  /// A blocking communicator of two ranks.
  ncclComm_t join(const ncclUniqueId& id) const {
    ncclComm_t made = nullptr;
    must(ncclCommInitRankConfig(&made, 2, id, number, nullptr));
    return made;
  }

  float* buffer(std::size_t which) const { return buffers.at(which)->device(); }
  int other() const { return 1 - number; }

  /// A send and a receive in one group, as the first use of a communicator should be.
  void warm_up(ncclComm_t on) const {
    must(ncclGroupStart());
    must(ncclSend(buffer(2), 64, ncclFloat32, other(), on, first));
    must(ncclRecv(buffer(3), 64, ncclFloat32, other(), on, first));
    must(ncclGroupEnd());
    test::must(first.synchronize());
  }

  int number;
  cuda_stream first;
  cuda_stream second;
  std::array<std::unique_ptr<floats>, 4> buffers;
};

inline ncclUniqueId new_id() {
  ncclUniqueId id;
  must(ncclGetUniqueId(&id));
  return id;
}

/// Runs the program of two ranks, each on a thread and a device of its own. Rethrows what the first
/// of them throws.
inline void run_two(const std::function<void(rank&)>& program) {
  std::array<std::exception_ptr, 2> problems;
  const auto one = [&](int number) {
    try {
      rank mine(number);
      program(mine);
    } catch (...) {
      problems[static_cast<std::size_t>(number)] = std::current_exception();
    }
  };
  std::thread zero(one, 0);
  std::thread other(one, 1);
  zero.join();
  other.join();
  for (const auto& each : problems)
    if (each)
      std::rethrow_exception(each);
}

} // namespace sluice::emulation::test
