// SPDX-License-Identifier: Apache-2.0
#include "cuda_copy.hpp"

#include <cstdint>
#include <string>

#include <dlfcn.h>

namespace digits {
namespace {

using muster::Errc;
using muster::failure;

template <class Function>
bool find(void* library, const char* name, Function& into) {
  into = reinterpret_cast<Function>(dlsym(library, name));
  return into != nullptr;
}

Result<void> checked(const std::string& what, int code) {
  if (code == 0) {
    return {};
  }
  return failure(Errc::cuda, what + " failed with CUDA error " + std::to_string(code));
}

// The library's buffers are in the GPU's primary context, which this thread shares.
Result<void> enter_context(void* library, int device) {
  int (*init)(unsigned) = nullptr;
  int (*get)(int*, int) = nullptr;
  int (*retain)(void**, int) = nullptr;
  int (*push)(void*) = nullptr;
  if (!find(library, "cuInit", init) || !find(library, "cuDeviceGet", get) ||
      !find(library, "cuDevicePrimaryCtxRetain", retain) ||
      !find(library, "cuCtxPushCurrent_v2", push)) {
    return failure(Errc::unsupported, "NVIDIA's driver is too old: functions are missing");
  }
  int handle = 0;
  void* context = nullptr;
  int code = init(0);
  code = code == 0 ? get(&handle, device) : code;
  code = code == 0 ? retain(&context, handle) : code;
  code = code == 0 ? push(context) : code;
  return checked("opening GPU " + std::to_string(device), code);
}

}  // namespace

// The collective library has already loaded the driver, from any path; this name finds that copy.
Result<CudaCopy> CudaCopy::open(int device) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    return failure(Errc::unsupported, "NVIDIA's driver is missing (libcuda.so.1)");
  }
  if (auto done = enter_context(library, device); !done) {
    return done.error();
  }
  CudaCopy out;
  if (!find(library, "cuMemcpyHtoD_v2", out.to_device_) ||
      !find(library, "cuMemcpyDtoH_v2", out.from_device_)) {
    return failure(Errc::unsupported, "NVIDIA's driver is too old: functions are missing");
  }
  return out;
}

Result<void> CudaCopy::upload(void* to, std::span<const float> from) const {
  return checked("a copy to the GPU",
                 to_device_(reinterpret_cast<std::uintptr_t>(to), from.data(), from.size_bytes()));
}

Result<void> CudaCopy::download(std::span<float> to, const void* from) const {
  return checked("a copy from the GPU",
                 from_device_(to.data(), reinterpret_cast<std::uintptr_t>(from), to.size_bytes()));
}

}  // namespace digits
