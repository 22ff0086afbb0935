#include "kernels/device.hpp"

#include <new>

namespace sluice::kernels {

namespace {

class cpu_device final : public device {
public:
  std::string name() const override { return "cpu"; }

  void* allocate(std::size_t bytes) override {
    return ::operator new(bytes, std::align_val_t{buffer_alignment_bytes});
  }

  void deallocate(void* memory, std::size_t bytes) noexcept override {
    ::operator delete(memory, bytes, std::align_val_t{buffer_alignment_bytes});
  }
};

} // namespace

std::shared_ptr<device> make_cpu_device() {
  return std::make_shared<cpu_device>();
}

} // namespace sluice::kernels
