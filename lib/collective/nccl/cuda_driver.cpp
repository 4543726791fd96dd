// SPDX-License-Identifier: Apache-2.0
#include "collective/nccl/cuda_driver.hpp"

#include "base/text.hpp"
#include "collective/nccl/open_place.hpp"

#include <fmt/format.h>

namespace muster::collective::nccl {
namespace {

constexpr const char* kRemedy = "Buffers in host memory need no GPU";

Result<CudaTable> cuda_table(const SharedObject& object) {
  CudaTable table;
  std::vector<std::string> missing;
#define MUSTER_ENTRY(name, symbol)                                                   \
  table.name = reinterpret_cast<decltype(table.name)>(find_symbol(object, #symbol)); \
  if (table.name == nullptr) {                                                       \
    missing.emplace_back(#symbol);                                                   \
  }
  MUSTER_CUDA_FUNCTIONS(MUSTER_ENTRY)
#undef MUSTER_ENTRY
  if (!missing.empty()) {
    return failure(Errc::unsupported, fmt::format("{} lacks {}", object.path, join(missing, ", ")));
  }
  return table;
}

Result<SharedObject> open_first(const std::vector<Place>& places) {
  std::vector<std::string> reasons;
  for (const auto& place : places) {
    auto object = open_place(place);
    if (object) {
      return object;
    }
    if (place.kind != Place::Kind::loaded) {
      reasons.push_back(object.error().text);
    }
  }
  return failure(
      Errc::unsupported,
      fmt::format(
          "no GPU can be used: cannot load NVIDIA's driver: {}. {}", join(reasons, "; "), kRemedy));
}

Result<std::shared_ptr<const CudaDriver>> start(const SharedObject& object) {
  auto table = cuda_table(object);
  MUSTER_RETURN_IF_ERROR(table);
  auto driver = std::make_shared<CudaDriver>();
  driver->call = *table;
  driver->path = object.path;
  auto result = table->init(0);
  if (result == CUDA_SUCCESS) {
    result = table->driver_version(&driver->version);
  }
  if (result == CUDA_SUCCESS) {
    result = table->device_count(&driver->devices);
  }
  if (result != CUDA_SUCCESS) {
    return failure(Errc::unsupported,
                   fmt::format("no GPU can be used: {} reports {}. {}",
                               object.path,
                               driver->message(result),
                               kRemedy));
  }
  if (driver->devices == 0) {
    return failure(Errc::unsupported,
                   fmt::format("no GPU can be used: {} reports no device (is CUDA_VISIBLE_DEVICES "
                               "empty?). {}",
                               object.path,
                               kRemedy));
  }
  return driver;
}

}  // namespace

std::string CudaDriver::message(CUresult result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  call.error_name(result, &name);
  call.error_string(result, &text);
  if (name == nullptr || text == nullptr) {
    return fmt::format("CUDA error {}", static_cast<int>(result));
  }
  return fmt::format("{}: {}", name, text);
}

Error CudaDriver::error(std::string_view what, CUresult result) const {
  return {.code = Errc::cuda,
          .native = static_cast<int>(result),
          .text = fmt::format("{}: {}", what, message(result))};
}

Result<std::shared_ptr<const CudaDriver>> load_cuda(const std::vector<Place>& places) {
  const auto object = open_first(places);
  return object ? start(*object) : std::unexpected(object.error());
}

int device_of(decltype(&cuPointerGetAttribute) ask, const void* data) {
  const auto place = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(data));
  unsigned int type = 0;
  unsigned int managed = 0;
  int ordinal = -1;
  const bool on_device = ask(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, place) == CUDA_SUCCESS &&
                         type == CU_MEMORYTYPE_DEVICE &&
                         ask(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, place) == CUDA_SUCCESS &&
                         managed == 0 &&
                         ask(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, place) == CUDA_SUCCESS;
  return on_device ? ordinal : -1;
}

}  // namespace muster::collective::nccl
