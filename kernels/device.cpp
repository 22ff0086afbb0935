#include "kernels/device.hpp"

#include <cstring>
#include <new>

namespace sluice::kernels {

namespace {

class cpu_device final : public device {
public:
  std::string name() const override { return "cpu"; }

  void* allocate(std::size_t bytes) override {
    return ::operator new (bytes, std::align_val_t{buffer_alignment_bytes});
  }

  void deallocate(void* memory, std::size_t bytes) noexcept override {
    ::operator delete (memory, bytes, std::align_val_t{buffer_alignment_bytes});
  }
};

} // namespace

void device::fill(void* memory, std::byte value, std::size_t bytes) {
  std::memset(memory, std::to_integer<int>(value), bytes);
}

void device::copy(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

void device::upload(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

void device::download(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

void device::fetch(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}

void device::when_done(std::function<void()> then) {
  then();
}

void device::wait() {}

std::shared_ptr<device> make_cpu_device() {
  return std::make_shared<cpu_device>();
}

} // namespace sluice::kernels
