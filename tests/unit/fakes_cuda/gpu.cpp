// SPDX-License-Identifier: Apache-2.0
#include "unit/fakes_cuda/gpu.hpp"

#include "base/check.hpp"

#include <cstdlib>

namespace muster::testing {
namespace {

void done(CUresult result) {
  MUSTER_CHECK(result == CUDA_SUCCESS);
}

}  // namespace

Gpu::Gpu(int device) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): before the driver starts
  MUSTER_CHECK(setenv("MUSTER_FAKE_CUDA_DEVICES", std::to_string(kDevices).c_str(), 1) == 0);
  done(cuInit(0));
  CUcontext context = nullptr;
  done(cuDevicePrimaryCtxRetain(&context, device));
  done(cuCtxPushCurrent(context));
  stream_ = new_stream();
}

// The context stays: what tests leave in it does no harm.
Gpu::~Gpu() {
  wait();
  done(cuStreamDestroy(stream_));
  CUcontext context = nullptr;
  done(cuCtxPopCurrent(&context));
}

CUstream Gpu::new_stream() {
  CUstream made = nullptr;
  done(cuStreamCreateWithPriority(&made, CU_STREAM_NON_BLOCKING, 0));
  return made;
}

CUmodule Gpu::load(const std::string& text) {
  CUmodule module = nullptr;
  done(cuModuleLoadData(&module, text.c_str()));
  return module;
}

CUfunction Gpu::function(CUmodule module, const char* name) {
  CUfunction function = nullptr;
  done(cuModuleGetFunction(&function, module, name));
  return function;
}

CUdeviceptr Gpu::memory(const std::vector<std::uint32_t>& words) {
  CUdeviceptr made = 0;
  done(cuMemAlloc(&made, words.size() * sizeof words[0]));
  done(cuMemcpyHtoD(made, words.data(), words.size() * sizeof words[0]));
  done(cuStreamSynchronize(nullptr));
  return made;
}

std::vector<std::uint32_t> Gpu::words(CUdeviceptr memory, std::size_t count) {
  std::vector<std::uint32_t> words(count);
  done(cuMemcpyDtoH(words.data(), memory, count * sizeof words[0]));
  return words;
}

void Gpu::close_gate() {
  const auto body = [](void* gate) { static_cast<std::binary_semaphore*>(gate)->acquire(); };
  done(cuLaunchHostFunc(stream_, body, &gate_));
}

void Gpu::wait() const {
  done(cuStreamSynchronize(stream_));
}

CUresult launch(CUfunction function,
                unsigned blocks,
                unsigned threads,
                CUstream stream,
                std::vector<std::uint64_t> parameters) {
  std::vector<void*> places;
  places.reserve(parameters.size());
  for (auto& parameter : parameters) {
    places.push_back(&parameter);
  }
  return cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, places.data(), nullptr);
}

}  // namespace muster::testing
