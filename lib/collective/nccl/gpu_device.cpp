// SPDX-License-Identifier: Apache-2.0
#include "collective/nccl/gpu_device.hpp"

#include "base/plural.hpp"
#include "collective/nccl/planted.hpp"

#include <fmt/format.h>

#include <array>
#include <map>
#include <utility>

namespace muster::collective::nccl {
namespace {

// The driver's path and the device number. Only tests use more than one driver.
using Key = std::pair<std::string, int>;

struct Registry {
  std::mutex mutex;
  std::map<Key, std::weak_ptr<GpuDevice>> devices;
};

// Never destroyed: communicators may be destroyed after static objects.
Registry& registry() {
  static auto* own = new Registry;
  return *own;
}

}  // namespace

GpuDevice::GpuDevice(std::shared_ptr<const CudaDriver> driver, int ordinal)
    : driver_(std::move(driver)), ordinal_(ordinal) {}

Result<std::shared_ptr<GpuDevice>> GpuDevice::open(std::shared_ptr<const CudaDriver> driver,
                                                   int ordinal) {
  if (ordinal < 0 || ordinal >= driver->devices) {
    return failure(Errc::invalid_argument,
                   fmt::format("there is no GPU {}: {} reports {}",
                               ordinal,
                               driver->path,
                               counted(driver->devices, "GPU")));
  }
  const std::scoped_lock lock(registry().mutex);
  auto& known = registry().devices[{driver->path, ordinal}];
  if (auto device = known.lock()) {
    return device;
  }
  std::shared_ptr<GpuDevice> device(new GpuDevice(std::move(driver), ordinal));
  MUSTER_RETURN_IF_ERROR(device->start());
  known = device;
  return device;
}

Result<void> GpuDevice::start() {
  CUdevice handle = 0;
  std::array<char, 128> name{};
  auto result = cuda().device_get(&handle, ordinal_);
  if (result == CUDA_SUCCESS) {
    result = cuda().device_name(name.data(), static_cast<int>(name.size()), handle);
  }
  if (result == CUDA_SUCCESS) {
    result = cuda().device_attribute(&major_, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle);
  }
  if (result == CUDA_SUCCESS) {
    result = cuda().retain_context(&context_, handle);
  }
  description_ = fmt::format("GPU {} ({})", ordinal_, name.data());
  if (result != CUDA_SUCCESS) {
    return std::unexpected(driver_->error(description_ + " cannot be used", result));
  }
  return {};
}

GpuDevice::~GpuDevice() {
  if (context_ != nullptr) {
    cuda().release_context(ordinal_);
  }
}

CurrentDevice::CurrentDevice(const GpuDevice& device) : device_(device) {
  pushed_ = !planted("no current device") &&
            device_.cuda().push_context(device_.context()) == CUDA_SUCCESS;
}

CurrentDevice::~CurrentDevice() {
  if (pushed_) {
    CUcontext popped = nullptr;
    device_.cuda().pop_context(&popped);
  }
}

}  // namespace muster::collective::nccl
