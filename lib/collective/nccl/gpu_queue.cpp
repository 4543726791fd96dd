// SPDX-License-Identifier: Apache-2.0
#include "collective/nccl/gpu_queue.hpp"

#include "collective/nccl/cast_kernels.hpp"
#include "collective/nccl/planted.hpp"

#include <algorithm>
#include <array>

namespace muster::collective::nccl {
namespace {

CUstream stream_of(void* handle) {
  return static_cast<CUstream>(handle);
}

CUdeviceptr place_of(const void* memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}

unsigned blocks_for(std::size_t count) {
  const std::size_t quads = count / kCastQuad;
  return static_cast<unsigned>(std::min<std::size_t>(quads / kCastThreads + 1, kCastMaxBlocks));
}

}  // namespace

GpuQueue::GpuQueue(std::shared_ptr<GpuDevice> device, std::unique_ptr<GpuStream> stream)
    : device_(std::move(device)),
      stream_(std::move(stream)),
      events_(std::make_shared<EventPool>(device_)) {}

Result<std::unique_ptr<DeviceQueue>> GpuQueue::create(std::shared_ptr<GpuDevice> device) {
  const CurrentDevice current(*device);
  auto stream = GpuStream::create(device);
  MUSTER_RETURN_IF_ERROR(stream);
  return std::unique_ptr<DeviceQueue>(new GpuQueue(std::move(device), *std::move(stream)));
}

GpuQueue::~GpuQueue() {
  if (casts_ != nullptr) {
    const CurrentDevice current(*device_);
    device_->cuda().module_unload(casts_);
  }
}

Result<void> GpuQueue::said(const char* what, CUresult result) const {
  return result == CUDA_SUCCESS ? Result<void>()
                                : std::unexpected(device_->driver().error(what, result));
}

Result<void> GpuQueue::fill_zero(void* memory, std::size_t bytes, void* stream) {
  const CurrentDevice current(*device_);
  return said("cuMemsetD8Async",
              device_->cuda().mem_set_async(place_of(memory), 0, bytes, stream_of(stream)));
}

Result<void> GpuQueue::copy(void* to, const void* from, std::size_t bytes, void* stream) {
  const CurrentDevice current(*device_);
  return said(
      "cuMemcpyDtoDAsync",
      device_->cuda().copy_on_device_async(place_of(to), place_of(from), bytes, stream_of(stream)));
}

// Looks up every kernel, so that a driver that loads kernels lazily loads them now instead of at
// the first launch.
Result<void> GpuQueue::load_casts() {
  if (casts_ != nullptr) {
    return {};
  }
  const CurrentDevice current(*device_);
  const CudaTable& cuda = device_->cuda();
  if (auto loaded =
          said("cuModuleLoadData", cuda.module_load_data(&casts_, cast_kernels().c_str()));
      !loaded) {
    casts_ = nullptr;
    return loaded;
  }
  for (const char* name : {kNarrowBf16, kNarrowF16, kWidenBf16, kWidenF16}) {
    if (auto found =
            said("cuModuleGetFunction", cuda.module_get_function(&kernels_[name], casts_, name));
        !found) {
      return found;
    }
  }
  return {};
}

Result<void> GpuQueue::narrow(
    DType wire, const void* from, void* to, std::size_t count, void* stream) {
  return launch(wire == DType::bf16 ? kNarrowBf16 : kNarrowF16, from, to, count, stream);
}

Result<void> GpuQueue::widen(
    DType wire, const void* from, void* to, std::size_t count, void* stream) {
  return launch(wire == DType::bf16 ? kWidenBf16 : kWidenF16, from, to, count, stream);
}

Result<void> GpuQueue::launch(
    const char* kernel, const void* from, void* to, std::size_t count, void* stream) {
  const auto found = kernels_.find(kernel);
  if (found == kernels_.end()) {
    return failure(Errc::invalid_state, "GPU conversion requested before load_casts");
  }
  if (count == 0) {
    return {};
  }
  const CurrentDevice current(*device_);
  CUdeviceptr source = place_of(from);
  CUdeviceptr target = place_of(to);
  std::uint64_t elements = count;
  std::array<void*, 3> given{&source, &target, &elements};
  return said("cuLaunchKernel",
              device_->cuda().launch_kernel(found->second,
                                            blocks_for(count),
                                            1,
                                            1,
                                            kCastThreads,
                                            1,
                                            1,
                                            0,
                                            stream_of(stream),
                                            given.data(),
                                            nullptr));
}

Result<void> GpuQueue::follow(void* stream, void* earlier) {
  if (stream == earlier) {
    return {};
  }
  const CurrentDevice current(*device_);
  const auto event = events_->take();
  MUSTER_RETURN_IF_ERROR(event);
  const auto recorded = event->record(stream_of(earlier));
  return recorded ? event->hold(stream_of(stream)) : recorded;
}

Result<void> GpuQueue::settle(void* stream) {
  const CurrentDevice current(*device_);
  return said("cuStreamSynchronize", device_->cuda().stream_synchronize(stream_of(stream)));
}

}  // namespace muster::collective::nccl
