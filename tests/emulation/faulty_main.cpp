// Programs that the emulation must stop, one a run: faulty CASE.

#include <cstdio>
#include <cstring>

#include "tests/emulation/fixtures.hpp"
#include "tests/emulation/sample_kernels.hpp"

using namespace sluice::emulation;
using namespace sluice::emulation::test;

namespace {

void read_device_memory() {
  set_schedule(schedule::lazy);
  const floats x(4);
  std::printf("%f\n", static_cast<double>(x.device()[0]));
}

void reach_another_device() {
  const cuda_stream on(0);
  const floats x(4);
  must(cudaSetDevice(1));
  const floats theirs(4);
  must(cudaSetDevice(0));
  // Past the check of pointers: far behind an allocation of device 0 lies device 1, or nothing.
  const auto away = theirs.device() - x.device();
  must(out_of_bounds(x.device(), static_cast<int>(away), on));
  must(on.synchronize());
}

void write_behind_allocation() {
  const cuda_stream on;
  const floats y(31);
  must(out_of_bounds(y.device(), 31, on));
  must(on.synchronize());
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 2)
    return 2;
  if (std::strcmp(argv[1], "host-reads-device") == 0)
    read_device_memory();
  else if (std::strcmp(argv[1], "kernel-reaches-other-device") == 0)
    reach_another_device();
  else if (std::strcmp(argv[1], "kernel-writes-behind-allocation") == 0)
    write_behind_allocation();
  else
    return 2;
  return 0;
}
