// SPDX-License-Identifier: Apache-2.0
// Devices, contexts, errors, capture mode. Knob: MUSTER_FAKE_CUDA_DEVICES, the number of devices
// (default 1).
#include "nccl/fakes/cuda/capture.hpp"
#include "nccl/fakes/cuda/extra.h"
#include "nccl/fakes/cuda/world.hpp"
#include "nccl/fakes/violation.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <unistd.h>

using muster::fake::context_stack;
using muster::fake::World;

namespace {

int device_count() {
  const char* text = std::getenv("MUSTER_FAKE_CUDA_DEVICES");  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? 1 : static_cast<int>(std::strtol(text, nullptr, 10));
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned int flags) {
  muster::fake::require(flags == 0, "cuInit's flags must be 0");
  World& world = World::get();
  const auto lock = world.lock();
  if (device_count() <= 0) {
    return CUDA_ERROR_NO_DEVICE;
  }
  if (!world.initialised) {
    for (int i = 0; i < device_count(); ++i) {
      world.contexts.push_back({.device = i, .retained = 0});
    }
    world.initialised = true;
    world.pid = getpid();
  }
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  *version = 13000;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult /*error*/, const char** name) {
  *name = "CUDA_ERROR";
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult /*error*/, const char** text) {
  *text = "a fake's error";
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  World& world = World::get();
  const auto lock = world.lock();
  *count = static_cast<int>(world.contexts.size());
  return world.initialised ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  World& world = World::get();
  const auto lock = world.lock();
  *device = ordinal;
  return ordinal >= 0 && ordinal < static_cast<int>(world.contexts.size())
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
  std::snprintf(name, static_cast<std::size_t>(size), "Fake GPU %d", device);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice /*device*/) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 : 0;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  World& world = World::get();
  const auto lock = world.lock();
  auto& own = world.contexts.at(static_cast<std::size_t>(device));
  ++own.retained;
  *context = reinterpret_cast<CUcontext>(&own);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  World& world = World::get();
  const auto lock = world.lock();
  auto& own = world.contexts.at(static_cast<std::size_t>(device));
  muster::fake::require(own.retained > 0, "a context is released more often than retained");
  if (--own.retained == 0) {
    world.check_nothing_is_left(device);
  }
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context) {
  auto* own = reinterpret_cast<muster::fake::Context*>(context);
  World& world = World::get();
  const auto lock = world.lock();
  muster::fake::require(own != nullptr && own->retained > 0,
                        "a context that nobody holds is made current");
  context_stack().push_back(own);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  muster::fake::require(!context_stack().empty(), "more contexts are popped than were pushed");
  *context = reinterpret_cast<CUcontext>(context_stack().back());
  context_stack().pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  *device = muster::fake::current_device();
  return *device < 0 ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  std::swap(*mode, muster::fake::capture_mode());
  return CUDA_SUCCESS;
}

void muster_fake_capturing(int on) {
  World& world = World::get();
  const auto lock = world.lock();
  world.capturing = on != 0;
}

}  // extern "C"
