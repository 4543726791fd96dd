// SPDX-License-Identifier: Apache-2.0
// Memory, copies and kernels: each call declares its memory uses, and unordered uses break a rule.
// What the host knows when a call returns follows CUDA's guarantees ("API synchronization
// behavior"), not what happens here.
#include "nccl/fakes/cuda/extra.h"
#include "nccl/fakes/cuda/world.hpp"
#include "nccl/fakes/violation.hpp"

#include <cstdlib>
#include <cstring>

using muster::fake::current_device;
using muster::fake::require;
using muster::fake::required_device;
using muster::fake::Span;
using muster::fake::Stream;
using muster::fake::violation;
using muster::fake::World;

namespace {

// The contents of new memory: a process's new pages are zero, but device memory is not.
constexpr int kRubbish = 0xcb;

// When a copy to or from unpinned host memory returns.
enum class Return {
  at_once,
  taken,  // its source is free; the rest runs in the stream, unknown to the host
  done
};

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
  std::uintptr_t device;  // the side in device memory
  bool writes_device;
};

CUresult enqueue_copy(const Copy& copy, CUstream handle, Return when) {
  World& world = World::get();
  auto lock = world.lock();
  Stream& stream = world.stream_of(handle, required_device());
  world.order.enqueue(stream.number);
  world.touch(stream, {copy.device, copy.device + copy.bytes, copy.writes_device}, "a copy");
  world.push(stream, [copy] { std::memcpy(copy.to, copy.from, copy.bytes); });
  if (when == Return::done) {
    world.drain(lock, stream);
  } else if (when == Return::taken) {
    world.await(lock, stream);
  }
  return CUDA_SUCCESS;
}

Copy to_device(CUdeviceptr to, const void* from, std::size_t bytes) {
  return {reinterpret_cast<void*>(to), from, bytes, to, true};
}

Copy from_device(void* to, CUdeviceptr from, std::size_t bytes) {
  return {to, reinterpret_cast<const void*>(from), bytes, from, false};
}

}  // namespace

extern "C" {

CUresult cuMemAlloc(CUdeviceptr* memory, std::size_t bytes) {
  if (bytes == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  void* made = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  std::memset(made, kRubbish, bytes);
  World& world = World::get();
  const auto lock = world.lock();
  *memory = reinterpret_cast<CUdeviceptr>(made);
  world.memory[*memory] = {.bytes = bytes, .device = required_device()};
  return CUDA_SUCCESS;
}

// Waits until the device is idle. CUDA does not guarantee this, so it does not count as the host's
// knowledge.
CUresult cuMemFree(CUdeviceptr memory) {
  World& world = World::get();
  auto lock = world.lock();
  const auto found = world.memory.find(memory);
  if (found == world.memory.end()) {
    violation("memory is freed that was not allocated, or twice");
  }
  if (const auto sentence = world.order.release({memory, memory + found->second.bytes, true})) {
    violation(*sentence);
  }
  const int device = found->second.device;
  world.memory.erase(found);
  world.await_device(lock, device);
  std::free(reinterpret_cast<void*>(memory));
  return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream stream) {
  struct Fill {
    void* to;
    unsigned char value;
    std::size_t bytes;
  };

  const muster_fake_span spans[] = {{reinterpret_cast<void*>(to), bytes, 1}, {nullptr, 0, 0}};
  auto* fill = new Fill{reinterpret_cast<void*>(to), value, bytes};
  const auto body = [](void* data) {
    const std::unique_ptr<Fill> own(static_cast<Fill*>(data));
    std::memset(own->to, own->value, own->bytes);
  };
  return muster_fake_launch(stream, "a fill", body, fill, spans);
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, std::size_t bytes) {
  return enqueue_copy(to_device(to, from, bytes), nullptr, Return::taken);
}

CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, std::size_t bytes) {
  return enqueue_copy(from_device(to, from, bytes), nullptr, Return::done);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  return enqueue_copy(to_device(to, from, bytes), stream, Return::at_once);
}

CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return enqueue_copy(from_device(to, from, bytes), stream, Return::at_once);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  const muster_fake_span spans[] = {{reinterpret_cast<void*>(from), bytes, 0},
                                    {reinterpret_cast<void*>(to), bytes, 1},
                                    {nullptr, 0, 0}};
  auto* copy = new Copy{reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes, 0, true};
  const auto body = [](void* data) {
    const std::unique_ptr<Copy> own(static_cast<Copy*>(data));
    std::memmove(own->to, own->from, own->bytes);
  };
  return muster_fake_launch(stream, "a copy", body, copy, spans);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn body, void* data) {
  const muster_fake_span none[] = {{nullptr, 0, 0}};
  return muster_fake_launch(stream, "a host function", body, data, none);
}

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  World& world = World::get();
  const auto lock = world.lock();
  if (world.bytes_from(address) == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto& found = std::prev(world.memory.upper_bound(address))->second;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      std::memcpy(value, &found.device, sizeof found.device);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      std::memcpy(value, &found.type, sizeof found.type);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      std::memcpy(value, &found.managed, sizeof found.managed);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

void muster_fake_call_it(const void* data, unsigned type, unsigned managed) {
  World& world = World::get();
  const auto lock = world.lock();
  auto& found = world.memory.at(reinterpret_cast<std::uintptr_t>(data));
  found.type = type;
  found.managed = managed;
}

// `spans` ends with an entry whose address is null.
CUresult muster_fake_launch(
    CUstream handle, const char* what, CUhostFn body, void* data, const muster_fake_span* spans) {
  World& world = World::get();
  const auto lock = world.lock();
  Stream& stream = world.stream_of(handle, required_device());
  require(stream.device == current_device(),
          "work is launched on a stream of another device than the current one");
  world.order.enqueue(stream.number);
  for (; spans->data != nullptr; ++spans) {
    const auto begin = reinterpret_cast<std::uintptr_t>(spans->data);
    world.touch(stream, {begin, begin + spans->bytes, spans->write != 0}, what);
  }
  world.push(stream, [body, data] { body(data); });
  return CUDA_SUCCESS;
}

std::size_t muster_fake_bytes_from(const void* data) {
  World& world = World::get();
  const auto lock = world.lock();
  return world.bytes_from(reinterpret_cast<std::uintptr_t>(data));
}

}  // extern "C"
