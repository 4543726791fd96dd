// SPDX-License-Identifier: Apache-2.0
// CudaDriver: functions of the CUDA driver (libcuda.so.1), which every machine with an NVIDIA GPU
// has; loaded at run time. Its streams and events are the same handles as in the runtime API. Do
// not use it before a fork: the driver does not work in a forked child. Used by GpuDevice. Value
// type; the library stays loaded. Any thread.
#pragma once

#include "collective/nccl/library_places.hpp"
#include "collective/nccl/shared_object.hpp"

#include <cuda.h>

#include <memory>

namespace muster::collective::nccl {

// Since CUDA 4, macros in cuda.h map the plain names to these versioned names.
// clang-format off
#define MUSTER_CUDA_FUNCTIONS(entry)                              \
  entry(init, cuInit)                                             \
  entry(driver_version, cuDriverGetVersion)                       \
  entry(error_name, cuGetErrorName)                               \
  entry(error_string, cuGetErrorString)                           \
  entry(device_count, cuDeviceGetCount)                           \
  entry(device_get, cuDeviceGet)                                  \
  entry(device_name, cuDeviceGetName)                             \
  entry(device_attribute, cuDeviceGetAttribute)                   \
  entry(retain_context, cuDevicePrimaryCtxRetain)                 \
  entry(release_context, cuDevicePrimaryCtxRelease_v2)            \
  entry(push_context, cuCtxPushCurrent_v2)                        \
  entry(pop_context, cuCtxPopCurrent_v2)                          \
  entry(priority_range, cuCtxGetStreamPriorityRange)              \
  entry(stream_create, cuStreamCreateWithPriority)                \
  entry(stream_destroy, cuStreamDestroy_v2)                       \
  entry(stream_wait_event, cuStreamWaitEvent)                     \
  entry(stream_synchronize, cuStreamSynchronize)                  \
  entry(stream_is_capturing, cuStreamIsCapturing)                 \
  entry(event_create, cuEventCreate)                              \
  entry(event_destroy, cuEventDestroy_v2)                         \
  entry(event_record, cuEventRecord)                              \
  entry(event_query, cuEventQuery)                                \
  entry(mem_alloc, cuMemAlloc_v2)                                 \
  entry(mem_set_async, cuMemsetD8Async)                           \
  entry(mem_free, cuMemFree_v2)                                   \
  entry(copy_to_device, cuMemcpyHtoD_v2)                          \
  entry(copy_from_device, cuMemcpyDtoH_v2)                        \
  entry(copy_to_device_async, cuMemcpyHtoDAsync_v2)               \
  entry(copy_from_device_async, cuMemcpyDtoHAsync_v2)             \
  entry(copy_on_device_async, cuMemcpyDtoDAsync_v2)               \
  entry(pointer_attribute, cuPointerGetAttribute)                 \
  entry(launch_host_function, cuLaunchHostFunc)                   \
  entry(module_load_data, cuModuleLoadData)                       \
  entry(module_unload, cuModuleUnload)                            \
  entry(module_get_function, cuModuleGetFunction)                 \
  entry(launch_kernel, cuLaunchKernel)                            \
  entry(exchange_capture_mode, cuThreadExchangeStreamCaptureMode)

// clang-format on

struct CudaTable {
// NOLINTBEGIN(bugprone-macro-parentheses): names of functions
#define MUSTER_ENTRY(name, symbol) decltype(&::symbol) name = nullptr;
  MUSTER_CUDA_FUNCTIONS(MUSTER_ENTRY)
#undef MUSTER_ENTRY
  // NOLINTEND(bugprone-macro-parentheses)
};

struct CudaDriver {
  CudaTable call;
  std::string path;
  int version = 0;  // newest supported CUDA version: 13000 is 13.0
  int devices = 0;

  // Example: "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected".
  [[nodiscard]] std::string message(CUresult result) const;
  // Returns an error with Errc::cuda and the text "<what>: <message(result)>".
  [[nodiscard]] Error error(std::string_view what, CUresult result) const;
};

// Loads and initializes the driver; requires at least one device. Error: unsupported, if the driver
// or a device is missing, or if the driver fails to start.
[[nodiscard]] Result<std::shared_ptr<const CudaDriver>> load_cuda(const std::vector<Place>& places);

// The device that owns the memory. -1 for memory that the host can access (pageable, pinned,
// managed), and for all memory if the driver was not initialized.
[[nodiscard]] int device_of(decltype(&cuPointerGetAttribute) ask, const void* data);

}  // namespace muster::collective::nccl
