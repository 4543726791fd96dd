// SPDX-License-Identifier: Apache-2.0
// Modules and kernels by the fake driver's own functions, used as they should be.
#include "fakes/cuda/extra.h"
#include "support/catch.hpp"
#include "unit/fakes_cuda/gpu.hpp"
#include "unit/fakes_cuda/kernels.hpp"

#include <cstring>
#include <numeric>

namespace muster::testing {
namespace {

using Words = std::vector<std::uint32_t>;

TEST_CASE("modules: a kernel runs on its stream, between the copies around it") {
  constexpr std::size_t kCount = 100'003;
  Gpu gpu;
  Words numbers(kCount);
  std::iota(numbers.begin(), numbers.end(), 5);
  const auto from = Gpu::memory(Words(kCount));
  const auto to = Gpu::memory(Words(kCount));
  const auto module = Gpu::load(kernel_file("strided"));
  const auto kernel = Gpu::function(module, "add_one");
  gpu.close_gate();
  CHECK(cuMemcpyHtoDAsync(from, numbers.data(), kCount * 4, gpu.stream()) == CUDA_SUCCESS);
  CHECK(launch(kernel, 98, 256, gpu.stream(), {from, to, kCount}) == CUDA_SUCCESS);
  CHECK(launch(kernel, 98, 256, gpu.stream(), {to, from, kCount}) == CUDA_SUCCESS);
  CHECK(cuStreamQuery(gpu.stream()) == CUDA_ERROR_NOT_READY);
  gpu.open_gate();
  gpu.wait();
  Words expected(kCount);
  std::iota(expected.begin(), expected.end(), 7);
  CHECK(Gpu::words(from, kCount) == expected);
  CHECK(cuModuleUnload(module) == CUDA_SUCCESS);
  CHECK(cuMemFree(from) == CUDA_SUCCESS);
  CHECK(cuMemFree(to) == CUDA_SUCCESS);
}

TEST_CASE("modules: an event orders kernels of two streams") {
  Gpu gpu;
  const auto other = Gpu::new_stream();
  const auto one = Gpu::memory({1, 2, 3, 4, 5});
  const auto two = Gpu::memory({0, 0, 0, 0, 0});
  const auto module = Gpu::load(kernel_file("strided"));
  const auto kernel = Gpu::function(module, "add_one");
  CUevent event = nullptr;
  REQUIRE(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
  gpu.close_gate();
  CHECK(launch(kernel, 1, 32, gpu.stream(), {one, two, 5}) == CUDA_SUCCESS);
  CHECK(cuEventRecord(event, gpu.stream()) == CUDA_SUCCESS);
  CHECK(cuStreamWaitEvent(other, event, 0) == CUDA_SUCCESS);
  CHECK(launch(kernel, 1, 32, other, {two, one, 5}) == CUDA_SUCCESS);
  gpu.open_gate();
  CHECK(cuStreamSynchronize(other) == CUDA_SUCCESS);
  CHECK(Gpu::words(one, 5) == Words{3, 4, 5, 6, 7});
  CHECK(cuModuleUnload(module) == CUDA_SUCCESS);
  CHECK(cuEventDestroy(event) == CUDA_SUCCESS);
  CHECK(cuStreamDestroy(other) == CUDA_SUCCESS);
  CHECK(cuMemFree(one) == CUDA_SUCCESS);
  CHECK(cuMemFree(two) == CUDA_SUCCESS);
}

TEST_CASE("modules: a kernel without work uses no memory") {
  const Gpu gpu;
  const auto module = Gpu::load(kernel_file("strided"));
  CHECK(launch(Gpu::function(module, "add_one"), 4, 256, gpu.stream(), {0, 0, 0}) == CUDA_SUCCESS);
  gpu.wait();
  CHECK(cuModuleUnload(module) == CUDA_SUCCESS);
}

TEST_CASE("modules: how many are loaded, and how often one was") {
  const int loaded = muster_fake_modules();
  const unsigned long loads = muster_fake_module_loads();
  const Gpu first(0);
  const auto module = Gpu::load(kernel_of("ret;"));
  const Gpu second(1);
  const auto another = Gpu::load(kernel_of("ret;"));
  CHECK(launch(Gpu::function(another), 1, 1, second.stream(), {0, 0}) == CUDA_SUCCESS);
  CHECK(muster_fake_modules() == loaded + 2);
  second.wait();
  CHECK(cuModuleUnload(another) == CUDA_SUCCESS);
  CHECK(muster_fake_modules() == loaded + 1);
  CHECK(muster_fake_module_loads() == loads + 2);
  CUcontext context = nullptr;
  CHECK(cuCtxPopCurrent(&context) == CUDA_SUCCESS);
  CHECK(cuModuleUnload(module) == CUDA_SUCCESS);
  CHECK(cuCtxPushCurrent(context) == CUDA_SUCCESS);
  CHECK(muster_fake_modules() == loaded);
}

TEST_CASE("modules: what is refused with an error, as by the real driver") {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  const auto text = kernel_of("ret;");
  {
    const Gpu gpu;
    const auto loads = muster_fake_module_loads();
    auto other = text;
    CHECK(cuModuleLoadData(&module, other.replace(9, 3, "9.1").c_str()) ==
          CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    other = text;
    CHECK(cuModuleLoadData(&module, other.replace(21, 5, "sm_100").c_str()) ==
          CUDA_ERROR_NO_BINARY_FOR_GPU);
    CHECK(cuModuleLoadData(&module, nullptr) == CUDA_ERROR_INVALID_VALUE);
    CHECK(muster_fake_module_loads() == loads);
    module = Gpu::load(text);
    CHECK(cuModuleGetFunction(&function, module, "kk") == CUDA_ERROR_NOT_FOUND);
    function = Gpu::function(module);
  }
  CHECK(cuModuleLoadData(&module, text.c_str()) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuModuleGetFunction(&function, module, "k") == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(launch(function, 1, 1, nullptr, {0, 0}) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuModuleUnload(module) == CUDA_ERROR_INVALID_CONTEXT);
  const Gpu gpu;
  CHECK(cuModuleUnload(module) == CUDA_SUCCESS);
}

TEST_CASE("modules: the errors have names") {
  const char* name = nullptr;
  CHECK(cuGetErrorName(CUDA_ERROR_INVALID_PTX, &name) == CUDA_SUCCESS);
  CHECK(std::strcmp(name, "CUDA_ERROR_INVALID_PTX") == 0);
  CHECK(cuGetErrorName(CUDA_ERROR_NOT_FOUND, &name) == CUDA_SUCCESS);
  CHECK(std::strcmp(name, "CUDA_ERROR_NOT_FOUND") == 0);
}

}  // namespace
}  // namespace muster::testing
