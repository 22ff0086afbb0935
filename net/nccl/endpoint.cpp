#include "net/nccl/endpoint.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "kernels/cuda/check.hpp"
#include "net/hand_over.hpp"

namespace sluice::net::nccl {

using kernels::cuda::check;

int shared_state::place_of(std::int32_t rank) const {
  const auto found = std::ranges::find(options.gpu_ranks, rank);
  return found == options.gpu_ranks.end() ? -1
                                          : static_cast<int>(found - options.gpu_ranks.begin());
}

void shared_state::claim(int gpu, std::int32_t rank) {
  const std::lock_guard lock(guard_);
  const auto [found, fresh] = rank_on_.emplace(gpu, rank);
  if (!fresh && found->second != rank)
    throw std::runtime_error(
      fmt::format("ranks {} and {} are both on cuda:{}, and NCCL takes a GPU for each rank: give "
                  "each its own, or leave NCCL out, so that stages hand tensors over",
                  std::min(rank, found->second), std::max(rank, found->second), gpu));
}

event::event() {
  check(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming), "an event");
}

event::~event() {
  cudaEventDestroy(handle_);
}

void event::record(cudaStream_t on) {
  check(cudaEventRecord(handle_, on), "an event");
}

void event::hold_up(cudaStream_t what) const {
  check(cudaStreamWaitEvent(what, handle_, 0), "waiting for an event");
}

namespace {

/// Whether a tensor is as a transfer's header says.
bool fits(const kernels::tensor& have, const tensor_header& wanted) {
  return static_cast<bool>(have) == wanted.present
      && (!have || (have.type() == wanted.type && have.shape() == wanted.shape()));
}

} // namespace

nccl_endpoint::nccl_endpoint(std::int32_t rank, std::shared_ptr<shared_state> shared)
  : rank_(rank),
    shared_(std::move(shared)),
    others_(shared_->options.others->at(rank)) {}

nccl_endpoint::~nccl_endpoint() {
  close();
}

void nccl_endpoint::listen(endpoint_events events) {
  events_ = events;
  others_.listen(std::move(events));
}

bool nccl_endpoint::by_nccl(std::int32_t from, std::int32_t to) const {
  return from != to && shared_->place_of(from) >= 0 && shared_->place_of(to) >= 0;
}

void nccl_endpoint::open(kernels::stream& on) {
  others_.open(on);
  const auto place = shared_->place_of(rank_);
  if (place < 0)
    return;
  device_ = dynamic_cast<kernels::cuda::device*>(&on.where());
  if (device_ == nullptr)
    throw std::logic_error(
      fmt::format("rank {} is said to be on a GPU, but is on {}", rank_, on.where().name()));
  if (shared_->options.gpu_ranks.size() > 1)
    shared_->claim(device_->index(), rank_);
  stream_ = &on;
  device_->select();
  check(cudaStreamCreateWithFlags(&moving_, cudaStreamNonBlocking), "a stream for transfers");
  if (shared_->options.gpu_ranks.size() < 2)
    return;
  communicator_.join(shared_->id, {static_cast<int>(shared_->options.gpu_ranks.size()), place,
                                   shared_->options.deadline});
  warm_up();
}

/// Every pair of ranks exchanges a byte, in the order of the pairs: a first use makes the
/// connection, and its host waits for the other's.
void nccl_endpoint::warm_up() {
  const auto me = shared_->place_of(rank_);
  const auto count = static_cast<int>(shared_->options.gpu_ranks.size());
  auto bytes = stream_->zeros(kernels::dtype::int32, {2});
  auto* first = bytes.bytes_span().data();
  device_->wait();
  for (int a = 0; a < count; ++a)
    for (int b = a + 1; b < count; ++b) {
      if (me != a && me != b)
        continue;
      const auto peer = me == a ? b : a;
      const auto what = fmt::format("the first exchange of ranks {} and {}",
                                    shared_->options.gpu_ranks[static_cast<std::size_t>(a)],
                                    shared_->options.gpu_ranks[static_cast<std::size_t>(b)]);
      communicator_.group(what, [&](ncclComm_t on) {
        nccl::check(ncclSend(first, 1, ncclInt8, peer, on, moving_), what);
        nccl::check(ncclRecv(first + 4, 1, ncclInt8, peer, on, moving_), what);
      });
    }
  check(cudaStreamSynchronize(moving_), "the first exchanges");
}

void nccl_endpoint::send(const transfer& what, kernels::tensor_list tensors) {
  drop_done();
  if (!by_nccl(what.from, what.to)) {
    others_.send(what, std::move(tensors));
    return;
  }
  const auto made = offer_of(what, tensors);
  offered_.emplace_back(what, std::move(tensors));
  shared_->offer(made);
}

void nccl_endpoint::commit(std::span<const offer> together) {
  drop_done();
  device_->select();
  auto moving = std::make_unique<under_way>();
  moving->of = this;
  std::string what;
  for (const auto& each : together)
    if (each.what.from == rank_ || each.what.to == rank_)
      what += (what.empty() ? "" : ", with ") + to_string(each.what);
  communicator_.group(what, [&](ncclComm_t on) {
    for (const auto& each : together)
      if (each.what.from == rank_)
        post_send(*moving, each, on);
      else if (each.what.to == rank_)
        post_receive(*moving, each, on);
  });
  moving->moved.record(moving_);
  check(cudaLaunchHostFunc(moving_, on_moved, moving.get()), "a call when a transfer is done");
  under_way_.push_back(std::move(moving));
}

void nccl_endpoint::post_send(under_way& into, const offer& what, ncclComm_t on) {
  const auto found =
    std::ranges::find_if(offered_, [&](const auto& entry) { return entry.first == what.what; });
  if (found == offered_.end())
    throw std::logic_error("committed, but not offered: " + to_string(what.what));
  for (const auto& each : found->second)
    if (each && each.bytes() > 0)
      nccl::check(ncclSend(each.bytes_span().data(), each.bytes(), ncclUint8,
                           shared_->place_of(what.what.to), on, moving_),
                  to_string(what.what));
  into.sent.push_back(std::move(found->second));
  offered_.erase(found);
}

void nccl_endpoint::post_receive(under_way& into, const offer& what, ncclComm_t on) {
  const auto along = edge_of(what.what);
  auto& place = landings_[along];
  if (!std::ranges::equal(place.tensors, what.tensors, fits))
    prepare(place, what);
  place.free.hold_up(moving_);
  for (auto& each : place.tensors)
    if (each && each.bytes() > 0)
      nccl::check(ncclRecv(each.bytes_span().data(), each.bytes(), ncclUint8,
                           shared_->place_of(what.what.from), on, moving_),
                  to_string(what.what));
  into.received.emplace_back(what.what, std::exchange(place.tensors, {}));
  if (along.chunk != every_chunk) // else the next one is another parameter's
    prepare(place, what);
}

void nccl_endpoint::prepare(landing& place, const offer& what) {
  place.tensors.clear();
  for (const auto& header : what.tensors) {
    auto& each = place.tensors.emplace_back();
    if (!header.present)
      continue;
    each = stream_->allocate(header.type, header.shape());
    each.set_use(kernels::buffer_use::transfer);
  }
  place.free.record(device_->compute_stream());
}

/// Runs in the order of the stream, on a thread that may call nothing of CUDA: so no tensor may go
/// away here. under_way holds them until the owner drops it.
void nccl_endpoint::on_moved(void* what) {
  auto& moved = *static_cast<under_way*>(what);
  auto& self = *moved.of;
  for (const auto& [name, tensors] : moved.received)
    if (self.inbox_.put(name, tensors))
      self.events_.arrived(name);
  moved.done.store(true, std::memory_order_release);
}

void nccl_endpoint::drop_done() {
  // Release and acquire: what the call on the stream did with it is done before it goes.
  while (!under_way_.empty() && under_way_.front()->done.load(std::memory_order_acquire))
    under_way_.pop_front();
}

kernels::tensor_list nccl_endpoint::take(const transfer& what, kernels::buffer_pool& pool) {
  if (!by_nccl(what.from, what.to))
    return others_.take(what, pool);
  auto tensors = inbox_.take(what);
  drop_done(); // else it would hold the tensors too, and hand_over() would copy them
  for (const auto& each : under_way_)
    for (auto& [name, held] : each->received)
      if (name == what) {
        each->moved.hold_up(device_->compute_stream());
        held.clear();
      }
  return hand_over(std::move(tensors), pool);
}

void nccl_endpoint::forget(std::uint64_t epoch) {
  others_.forget(epoch);
  // What was offered is still committed at both ends, and moves; then it is dropped.
  inbox_.forget(epoch);
}

void nccl_endpoint::close() noexcept {
  if (moving_ == nullptr)
    return;
  cudaSetDevice(device_->index());
  communicator_.abort();
  cudaStreamSynchronize(moving_);
  cudaStreamDestroy(moving_);
  moving_ = nullptr;
  under_way_.clear();
  offered_.clear();
  landings_.clear();
  inbox_.forget(~std::uint64_t{0});
}

} // namespace sluice::net::nccl
