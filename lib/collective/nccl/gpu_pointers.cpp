// SPDX-License-Identifier: Apache-2.0
#include "collective/nccl/gpu_pointers.hpp"

#include "collective/nccl/cuda_driver.hpp"

#include <link.h>

namespace muster::collective {
namespace {

// Number of libraries loaded so far. Reading it is cheap, whereas looking up a library by name
// would take microseconds.
std::uint64_t loads() {
  std::uint64_t out = 0;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t /*size*/, void* to) {
        *static_cast<std::uint64_t*>(to) = info->dlpi_adds;
        return 1;
      },
      &out);
  return out;
}

}  // namespace

int GpuPointers::ask(const void* data) {
  void* function = asks_;
  if (function == nullptr) {
    const std::uint64_t now = loads();
    if (now == loads_) {
      return kHost;
    }
    const auto loaded = nccl::loaded_shared_object(driver_.empty() ? nccl::kCudaSoname : driver_);
    function = loaded ? nccl::find_symbol(*loaded, "cuPointerGetAttribute") : nullptr;
    asks_ = function;
    loads_ = now;
    if (function == nullptr) {
      return kHost;
    }
  }
  return nccl::device_of(reinterpret_cast<decltype(&cuPointerGetAttribute)>(function), data);
}

}  // namespace muster::collective
