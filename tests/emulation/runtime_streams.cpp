// The CUDA runtime's functions for streams and events. See engine.hpp.

#include <algorithm>

#include "tests/emulation/runtime_call.hpp"

namespace sluice::emulation {

namespace {

struct event_state {
  int device = 0;
  std::shared_ptr<event_point> point;
};

event_state& event_of(cudaEvent_t handle) {
  return *reinterpret_cast<event_state*>(handle);
}

} // namespace
} // namespace sluice::emulation

using namespace sluice::emulation;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  call in(__func__);
  if (flags != cudaStreamNonBlocking)
    in.all.violate_locked("a stream that waits for the default stream");
  auto made = std::make_unique<stream_state>();
  made->device = current_device();
  made->id = in.all.next_stream++;
  *stream = reinterpret_cast<cudaStream_t>(made.get());
  in.device().streams.push_back(std::move(made));
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  call in(__func__);
  auto* state = stream_of(stream);
  in.synchronize(*state, __func__); // the real one returns at once and lets the stream finish
  auto& streams = in.all.devices[static_cast<std::size_t>(state->device)]->streams;
  std::erase_if(streams, [&](const auto& each) { return each.get() == state; });
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  call in(__func__);
  auto* state = stream_of(stream);
  if (state == nullptr)
    return in.result(cudaErrorInvalidResourceHandle);
  if (!in.synchronize(*state, __func__))
    return in.result(cudaErrorLaunchTimeout);
  return in.result(in.all.devices[static_cast<std::size_t>(state->device)]->broken);
}

cudaError_t cudaDeviceSynchronize() {
  call in(__func__);
  if (!in.synchronize_device(__func__))
    return in.result(cudaErrorLaunchTimeout);
  return in.result(in.device().broken);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  call in(__func__);
  auto* state = stream_of(stream);
  if (state->pending.empty())
    return in.result(in.all.devices[static_cast<std::size_t>(state->device)]->broken);
  in.all.polled.push_back(state->pending.back());
  in.all.changed.notify_all();
  return cudaErrorNotReady;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  call in(__func__);
  *event = reinterpret_cast<cudaEvent_t>(new event_state{current_device(), nullptr});
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  call in(__func__);
  delete &event_of(event);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  call in(__func__);
  const auto* on = stream_of(stream);
  if (on == nullptr || on->device != event_of(event).device) {
    in.all.violate_locked("an event is recorded on a stream of another device");
    return in.result(cudaErrorInvalidResourceHandle);
  }
  auto made = std::make_shared<operation>();
  made->kind = operation::kind::record;
  made->label = "an event's record";
  made->point = std::make_shared<event_point>();
  made->point->record = made;
  event_of(event).point = made->point;
  return in.enqueue(stream, std::move(made));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  call in(__func__);
  if (!event_of(event).point) {
    in.all.violate_locked("a wait for an event that was never recorded waits for nothing");
    return cudaSuccess;
  }
  auto made = std::make_shared<operation>();
  made->kind = operation::kind::wait;
  made->label = "a wait for an event";
  made->point = event_of(event).point;
  return in.enqueue(stream, std::move(made));
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  call in(__func__);
  const auto& state = event_of(event);
  const auto broken = in.all.devices[static_cast<std::size_t>(state.device)]->broken;
  if (!state.point || state.point->done || broken != cudaSuccess)
    return in.result(broken);
  in.all.polled.push_back(state.point->record);
  in.all.changed.notify_all();
  return cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  call in(__func__);
  const auto& state = event_of(event);
  const auto point = state.point;
  if (!point)
    return cudaSuccess;
  if (!in.all.wait_locked(in.lock, __func__, {point->record.lock()}, [&] { return point->done; }))
    return in.result(cudaErrorLaunchTimeout);
  return in.result(in.all.devices[static_cast<std::size_t>(state.device)]->broken);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  call in(__func__);
  const auto& first = event_of(begin).point;
  const auto& last = event_of(end).point;
  if (!first || !last)
    return in.result(cudaErrorInvalidResourceHandle);
  if (!first->done || !last->done)
    return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(last->when - first->when).count();
  return cudaSuccess;
}

} // extern "C"
