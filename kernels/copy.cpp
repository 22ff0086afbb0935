#include "kernels/copy.hpp"

#include <stdexcept>
#include <vector>

#include <fmt/format.h>

namespace sluice::kernels {

namespace {

/// How bytes come to the processor.
using reading = void (device::*)(void* to, const void* from, std::size_t bytes);

void copy_by(reading read, const tensor& from, tensor& to) {
  if (from.type() != to.type() || from.elements() != to.elements())
    throw std::invalid_argument(fmt::format("copy: {} of {} into {} of {}", to_string(from.shape()),
                                            name(from.type()), to_string(to.shape()),
                                            name(to.type())));
  auto* source = from.where();
  auto* target = to.where();
  const auto* bytes = from.bytes_span().data();
  auto* into = to.bytes_span().data();
  if (source == target) {
    target->copy(into, bytes, from.bytes());
  } else if (source->is_host()) {
    target->upload(into, bytes, from.bytes());
  } else if (target->is_host()) {
    (source->*read)(into, bytes, from.bytes());
  } else {
    std::vector<std::byte> between(from.bytes());
    (source->*read)(between.data(), bytes, between.size());
    target->upload(into, between.data(), between.size());
  }
}

tensor copied_by(reading read, buffer_pool& pool, const tensor& from) {
  auto made = pool.allocate(from.type(), from.shape());
  copy_by(read, from, made);
  return made;
}

} // namespace

void copy(const tensor& from, tensor& to) {
  copy_by(&device::download, from, to);
}

tensor copied(buffer_pool& pool, const tensor& from) {
  return copied_by(&device::download, pool, from);
}

tensor transferred(buffer_pool& pool, const tensor& from) {
  return copied_by(&device::fetch, pool, from);
}

tensor copied(stream& on, const tensor& from) {
  return copied(on.pool(), from);
}

void set_zero(tensor& what) {
  what.where()->fill(what.bytes_span().data(), std::byte{0}, what.bytes());
}

double read_scalar(const tensor& of) {
  if (of.type() != dtype::float64 || of.elements() != 1)
    throw std::invalid_argument("read_scalar: " + to_string(of.shape()) + " of "
                                + std::string(name(of.type())));
  double value = 0;
  of.where()->download(&value, of.bytes_span().data(), sizeof value);
  return value;
}

} // namespace sluice::kernels
