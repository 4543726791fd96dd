// SPDX-License-Identifier: Apache-2.0
// Memory that the library owns: allocated by CUDA, or allocated by NCCL and registered with it.
#include "base/clock.hpp"
#include "collective/nccl/gpu_queue.hpp"
#include "collective/nccl/nccl_communicator.hpp"
#include "collective/nccl/planted.hpp"

#include <fmt/format.h>

namespace muster::collective::nccl {

Result<void*> NcclCommunicator::alloc(std::size_t bytes) {
  const CurrentDevice current(state_->device());
  const NcclTable& nccl = state_->nccl();
  Memory how{.from_nccl = options_.register_buffers && nccl.mem_alloc != nullptr &&
                          nccl.mem_free != nullptr && nccl.comm_register != nullptr &&
                          nccl.comm_deregister != nullptr,
             .registration = nullptr};
  void* memory = nullptr;
  if (how.from_nccl) {
    const auto done =
        state_->run({.name = "ncclMemAlloc",
                     .request = nullptr,
                     .deadline = steady_now() + options_.init_timeout,
                     .body = [&](ncclComm_t /*comm*/) { return nccl.mem_alloc(&memory, bytes); }});
    MUSTER_RETURN_IF_ERROR(done);
  } else {
    CUdeviceptr made = 0;
    if (const auto result = state_->device().cuda().mem_alloc(&made, bytes);
        result != CUDA_SUCCESS) {
      return std::unexpected(state_->device().driver().error(
          fmt::format("cannot allocate {} bytes on the GPU", bytes), result));
    }
    memory = reinterpret_cast<void*>(made);
  }
  memory_[memory] = how;
  MUSTER_RETURN_IF_ERROR(clear(memory, bytes));
  if (how.from_nccl) {
    const auto done = state_->run({.name = "ncclCommRegister",
                                   .request = nullptr,
                                   .deadline = steady_now() + options_.init_timeout,
                                   .body = [&](ncclComm_t comm) {
                                     return nccl.comm_register(
                                         comm, memory, bytes, &memory_[memory].registration);
                                   }});
    MUSTER_RETURN_IF_ERROR(done);
  }
  return memory;
}

// Uses a temporary stream, because waiting for the caller's streams or for pending operations could
// take forever.
Result<void> NcclCommunicator::clear(void* memory, std::size_t bytes) {
  const auto stream = GpuStream::create(state_->setup().device);
  MUSTER_RETURN_IF_ERROR(stream);
  const GpuDevice& device = state_->device();
  auto result = device.cuda().mem_set_async(
      reinterpret_cast<CUdeviceptr>(memory), 0, bytes, (*stream)->get());
  if (result == CUDA_SUCCESS && !planted("no wait for clearing")) {
    result = device.cuda().stream_synchronize((*stream)->get());
  }
  return result == CUDA_SUCCESS
             ? Result<void>()
             : std::unexpected(device.driver().error("cannot clear memory on the GPU", result));
}

Result<void> NcclCommunicator::free(void* memory) {
  const auto found = memory_.find(memory);
  if (found == memory_.end()) {
    return failure(Errc::invalid_argument,
                   "free: this pointer was not returned by alloc, or was already freed");
  }
  const Memory how = found->second;
  memory_.erase(found);
  const CurrentDevice current(state_->device());
  return release(memory, how);
}

Result<void> NcclCommunicator::release(void* memory, const Memory& how) {
  const NcclTable& nccl = state_->nccl();
  if (how.registration != nullptr && !state_->dead()) {
    const auto done = state_->run(
        {.name = "ncclCommDeregister",
         .request = nullptr,
         .deadline = steady_now() + options_.init_timeout,
         .body = [&](ncclComm_t comm) { return nccl.comm_deregister(comm, how.registration); }});
    if (!done) {
      return done;
    }
  }
  // Both calls may wait until the GPU is idle, so do not hold the device's lock.
  if (how.from_nccl) {
    const auto result = nccl.mem_free(memory);
    return result == ncclSuccess
               ? Result<void>()
               : failure(Errc::nccl, fmt::format("ncclMemFree: {}", nccl.get_error_string(result)));
  }
  const auto result = state_->device().cuda().mem_free(reinterpret_cast<CUdeviceptr>(memory));
  return result == CUDA_SUCCESS
             ? Result<void>()
             : std::unexpected(state_->device().driver().error("cuMemFree", result));
}

Result<std::unique_ptr<DeviceQueue>> NcclCommunicator::make_queue() {
  return GpuQueue::create(state_->setup().device);
}

}  // namespace muster::collective::nccl
