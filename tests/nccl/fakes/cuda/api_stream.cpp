// SPDX-License-Identifier: Apache-2.0
// Streams and events. An event that was recorded twice represents its last record, as in CUDA.
#include "nccl/fakes/cuda/capture.hpp"
#include "nccl/fakes/cuda/extra.h"
#include "nccl/fakes/cuda/world.hpp"
#include "nccl/fakes/violation.hpp"

using muster::fake::current_device;
using muster::fake::Event;
using muster::fake::require;
using muster::fake::required_device;
using muster::fake::Stream;
using muster::fake::World;

namespace {

Event& event_of(CUevent handle) {
  auto* event = reinterpret_cast<Event*>(handle);
  require(event != nullptr && !event->destroyed, "a destroyed event is used");
  return *event;
}

}  // namespace

extern "C" {

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return current_device() < 0 ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned int /*flags*/, int /*priority*/) {
  World& world = World::get();
  const auto lock = world.lock();
  *stream = reinterpret_cast<CUstream>(world.make_stream(required_device()));
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream) {
  World& world = World::get();
  const auto lock = world.lock();
  world.close_stream(world.stream_of(stream, current_device()));
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream) {
  World& world = World::get();
  auto lock = world.lock();
  world.drain(lock, world.stream_of(stream, required_device()));
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent* event, unsigned int flags) {
  require((flags & CU_EVENT_DISABLE_TIMING) != 0,
          "an event with timing, which slows a stream down");
  auto* made = new Event;
  made->device = required_device();
  *event = reinterpret_cast<CUevent>(made);
  return CUDA_SUCCESS;
}

// Its memory is kept, so that a later use is detected.
CUresult cuEventDestroy(CUevent event) {
  World& world = World::get();
  const auto lock = world.lock();
  event_of(event).destroyed = true;
  static auto* graveyard = new std::vector<CUevent>;
  graveyard->push_back(event);
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent handle, CUstream stream) {
  World& world = World::get();
  const auto lock = world.lock();
  Event& event = event_of(handle);
  Stream& own = world.stream_of(stream, required_device());
  if (own.device != event.device) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  world.order.enqueue(own.number);
  event.clock = world.order.at(own.number);
  event.passed = std::make_shared<bool>(false);
  world.push(own, [&world, passed = event.passed] {
    const auto held = world.lock();
    *passed = true;
    world.notify();
  });
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent handle, unsigned int flags) {
  require(flags == 0, "cuStreamWaitEvent's flags must be 0");
  World& world = World::get();
  const auto lock = world.lock();
  Event& event = event_of(handle);
  Stream& own = world.stream_of(stream, current_device());
  world.order.stream_waits(own.number, event.clock);
  world.push(own, [&world, passed = event.passed] {
    auto held = world.lock();
    while (!*passed) {
      world.wait(held);
    }
  });
  return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent handle) {
  World& world = World::get();
  const auto lock = world.lock();
  require(!world.capturing || muster::fake::capture_mode() == CU_STREAM_CAPTURE_MODE_RELAXED,
          "an event is queried while another thread captures a graph, which spoils it: the "
          "thread's capture mode must be relaxed");
  const Event& event = event_of(handle);
  if (!*event.passed) {
    return CUDA_ERROR_NOT_READY;
  }
  world.order.host_knows(event.clock);
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  World& world = World::get();
  const auto lock = world.lock();
  *status = world.stream_of(stream, current_device()).captures ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                                               : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

void muster_fake_capture(CUstream stream, int on) {
  World& world = World::get();
  const auto lock = world.lock();
  world.stream_of(stream, current_device()).captures = on != 0;
}

void muster_fake_await_device(int device) {
  World& world = World::get();
  auto lock = world.lock();
  world.await_device(lock, device);
}

int muster_fake_awaiting(void) {
  World& world = World::get();
  const auto lock = world.lock();
  return world.awaiting;
}

void muster_fake_hold(CUstream stream, const char* why) {
  World& world = World::get();
  const auto lock = world.lock();
  world.stream_of(stream, current_device()).held = why == nullptr ? "" : why;
}

}  // extern "C"
