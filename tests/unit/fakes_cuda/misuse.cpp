// SPDX-License-Identifier: Apache-2.0
#include "unit/fakes_cuda/misuse.hpp"

#include "unit/fakes_cuda/gpu.hpp"
#include "unit/fakes_cuda/kernels.hpp"

#include <array>
#include <cstdio>

namespace muster::testing {
namespace {

// The word of each thread at a is copied to b.
std::string copy_kernel() {
  return kernel_of(
      "mov.u32 %t0, %tid.x; cvt.u64.u32 %i, %t0; shl.b64 %i, %i, 2;\n"
      "add.u64 %a, %a, %i; add.u64 %b, %b, %i;\n"
      "ld.global.b32 %t0, [%a]; st.global.b32 [%b], %t0; ret;");
}

// A kernel that copies four words, and memory for it.
struct Stage : Gpu {
  CUmodule module = load(copy_kernel());
  CUfunction copy = function(module);
  CUdeviceptr from = memory({1, 2, 3, 4});
  CUdeviceptr to = memory({0, 0, 0, 0});
  // As they stand, for what launch() cannot say.
  std::array<void*, 2> parameters = {&from, &to};
};

void context_before_memory() {
  const Gpu gpu;
  static_cast<void>(Gpu::memory({1}));
  cuDevicePrimaryCtxRelease(0);
}

void context_before_stream() {
  const Gpu gpu;
  cuDevicePrimaryCtxRelease(0);
}

void unload_while_queued() {
  Stage gpu;
  gpu.close_gate();
  launch(gpu.copy, 1, 4, gpu.stream(), {gpu.from, gpu.to});
  cuModuleUnload(gpu.module);
}

void launch_after_unload() {
  const Stage gpu;
  cuModuleUnload(gpu.module);
  launch(gpu.copy, 1, 4, gpu.stream(), {gpu.from, gpu.to});
}

void function_after_unload() {
  const Stage gpu;
  cuModuleUnload(gpu.module);
  static_cast<void>(Gpu::function(gpu.module));
}

void unloaded_twice() {
  const Stage gpu;
  cuModuleUnload(gpu.module);
  cuModuleUnload(gpu.module);
}

void launch_of_no_function() {
  const Stage gpu;
  launch(reinterpret_cast<CUfunction>(gpu.module), 1, 4, gpu.stream(), {gpu.from, gpu.to});
}

void unload_of_no_module() {
  const Stage gpu;
  cuModuleUnload(reinterpret_cast<CUmodule>(gpu.copy));
}

void other_context() {
  const Stage gpu;
  const Gpu other(1);
  launch(gpu.copy, 1, 4, other.stream(), {gpu.from, gpu.to});
}

void other_stream() {
  const Gpu other(1);
  const Stage gpu;
  launch(gpu.copy, 1, 4, other.stream(), {gpu.from, gpu.to});
}

void unload_in_other_context() {
  const Stage gpu;
  const Gpu other(1);
  cuModuleUnload(gpu.module);
}

void no_threads() {
  const Stage gpu;
  launch(gpu.copy, 1, 0, gpu.stream(), {gpu.from, gpu.to});
}

void many_threads() {
  const Stage gpu;
  launch(gpu.copy, 1, 1025, gpu.stream(), {gpu.from, gpu.to});
}

void no_blocks() {
  const Stage gpu;
  launch(gpu.copy, 0, 4, gpu.stream(), {gpu.from, gpu.to});
}

void many_blocks() {
  const Stage gpu;
  launch(gpu.copy, 0x80000000, 4, gpu.stream(), {gpu.from, gpu.to});
}

void two_dimensions() {
  Stage gpu;
  cuLaunchKernel(gpu.copy, 1, 2, 1, 4, 1, 1, 0, gpu.stream(), gpu.parameters.data(), nullptr);
}

void shared_memory() {
  Stage gpu;
  cuLaunchKernel(gpu.copy, 1, 1, 1, 4, 1, 1, 16, gpu.stream(), gpu.parameters.data(), nullptr);
}

void extra() {
  Stage gpu;
  cuLaunchKernel(gpu.copy, 1, 1, 1, 4, 1, 1, 0, gpu.stream(), nullptr, gpu.parameters.data());
}

void no_parameters() {
  const Stage gpu;
  cuLaunchKernel(gpu.copy, 1, 1, 1, 4, 1, 1, 0, gpu.stream(), nullptr, nullptr);
}

void null_parameter() {
  Stage gpu;
  gpu.parameters[1] = nullptr;
  cuLaunchKernel(gpu.copy, 1, 1, 1, 4, 1, 1, 0, gpu.stream(), gpu.parameters.data(), nullptr);
}

void reads_beyond() {
  const Stage gpu;
  const auto bigger = Gpu::memory({0, 0, 0, 0, 0});
  launch(gpu.copy, 1, 5, gpu.stream(), {gpu.from, bigger});
}

void writes_beyond() {
  const Stage gpu;
  const auto bigger = Gpu::memory({0, 0, 0, 0, 0});
  launch(gpu.copy, 1, 5, gpu.stream(), {bigger, gpu.to});
}

void host_memory() {
  const Stage gpu;
  const std::vector<std::uint32_t> host(4);
  launch(gpu.copy, 1, 4, gpu.stream(), {address_of(host), gpu.to});
}

void freed_memory() {
  Stage gpu;
  gpu.close_gate();
  launch(gpu.copy, 1, 4, gpu.stream(), {gpu.from, gpu.to});
  cuMemFree(gpu.to);
}

void read_before_written() {
  Stage gpu;
  gpu.close_gate();
  launch(gpu.copy, 1, 4, gpu.stream(), {gpu.from, gpu.to});
  const auto next = Gpu::memory({0, 0, 0, 0});
  launch(gpu.copy, 1, 4, Gpu::new_stream(), {gpu.to, next});
}

void written_while_read() {
  Stage gpu;
  gpu.close_gate();
  launch(gpu.copy, 1, 4, gpu.stream(), {gpu.from, gpu.to});
  cuMemsetD8Async(gpu.from, 0, 4, Gpu::new_stream());
}

void threads_meet() {
  const Stage gpu;
  launch(gpu.copy, 2, 4, gpu.stream(), {gpu.from, gpu.to});
}

void unwritten_register() {
  const Stage gpu;
  const auto module = Gpu::load(kernel_of("add.u32 %t0, %t1, 1; ret;"));
  launch(Gpu::function(module), 1, 1, gpu.stream(), {gpu.from, gpu.to});
}

// Only the real run sees it, on the stream's thread.
void address_from_data() {
  const Stage gpu;
  const auto module =
      Gpu::load(kernel_of("ld.global.b32 %t0, [%a+12]; cvt.u64.u32 %i, %t0; add.u64 %b, %b, %i;\n"
                          "st.global.b32 [%b], %t0; ret;"));
  launch(Gpu::function(module), 1, 1, gpu.stream(), {gpu.from, gpu.to});
  gpu.wait();
}

// These two break no rule: what they print is looked at.
void refused() {
  const Gpu gpu;
  CUmodule module = nullptr;
  if (cuModuleLoadData(&module, kernel_of("\n\nsin.approx.f32 %f0, %f1; ret;").c_str()) ==
      CUDA_ERROR_INVALID_PTX) {
    static_cast<void>(std::fputs("CUDA_ERROR_INVALID_PTX\n", stderr));
  }
}

void well_used() {
  const Stage gpu;
  launch(gpu.copy, 1, 4, gpu.stream(), {gpu.from, gpu.to});
  gpu.wait();
  cuModuleUnload(gpu.module);
  cuMemFree(gpu.to);
}

}  // namespace

const std::map<std::string, Misuse>& misuses() {
  static const std::map<std::string, Misuse> kMisuses = {
      {"context before memory", context_before_memory},
      {"context before stream", context_before_stream},
      {"unload while queued", unload_while_queued},
      {"launch after unload", launch_after_unload},
      {"function after unload", function_after_unload},
      {"unloaded twice", unloaded_twice},
      {"launch of no function", launch_of_no_function},
      {"unload of no module", unload_of_no_module},
      {"other context", other_context},
      {"other stream", other_stream},
      {"unload in other context", unload_in_other_context},
      {"no threads", no_threads},
      {"many threads", many_threads},
      {"no blocks", no_blocks},
      {"many blocks", many_blocks},
      {"two dimensions", two_dimensions},
      {"shared memory", shared_memory},
      {"extra", extra},
      {"no parameters", no_parameters},
      {"null parameter", null_parameter},
      {"reads beyond", reads_beyond},
      {"writes beyond", writes_beyond},
      {"host memory", host_memory},
      {"freed memory", freed_memory},
      {"read before written", read_before_written},
      {"written while read", written_while_read},
      {"threads meet", threads_meet},
      {"unwritten register", unwritten_register},
      {"address from data", address_from_data},
      {"refused", refused},
      {"well used", well_used}};
  return kMisuses;
}

}  // namespace muster::testing
