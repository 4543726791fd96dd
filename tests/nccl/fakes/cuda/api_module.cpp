// SPDX-License-Identifier: Apache-2.0
// Modules and kernels: PTX is parsed when it is loaded, and the interpreter in ptx_run really
// executes it on the stream's thread. A dry run at launch finds the memory that a kernel uses. The
// number of parameters passed to a launch cannot be checked, because kernelParams has no length.
#include "nccl/fakes/cuda/extra.h"
#include "nccl/fakes/cuda/ptx_parse.hpp"
#include "nccl/fakes/cuda/ptx_run.hpp"
#include "nccl/fakes/cuda/world.hpp"
#include "nccl/fakes/violation.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

using muster::fake::current_device;
using muster::fake::Kernel;
using muster::fake::require;
using muster::fake::Span;
using muster::fake::Stream;
using muster::fake::violation;
using muster::fake::World;

namespace {

struct Module;

struct Function {
  Module* module;
  const Kernel* kernel;
};

struct Module {
  std::vector<Kernel> kernels;
  std::vector<Function> functions;  // one for each kernel
  int device = 0;
  bool loaded = true;
  int launches = 0;  // queued or running
};

constexpr unsigned kBlockThreadsMax = 1024;
constexpr unsigned kGridBlocksMax = 0x7fffffff;

// Guarded by the World's lock. Kept after unloading, so that a later use is detected.
std::vector<std::unique_ptr<Module>>& modules() {
  static auto* all = new std::vector<std::unique_ptr<Module>>;
  return *all;
}

Module& module_of(CUmodule handle) {
  auto& module = *reinterpret_cast<Module*>(handle);
  require(module.loaded, "a module is used after it was unloaded");
  require(module.device == current_device(), "a module of another device's context is used");
  return module;
}

CUresult load(const char* text, CUmodule* handle) {
  auto kernels = muster::fake::parse_ptx(text);
  if (!kernels) {
    static_cast<void>(std::fprintf(stderr, "fake: PTX is refused: %s\n", kernels.error().c_str()));
    return CUDA_ERROR_INVALID_PTX;
  }
  World& world = World::get();
  const auto lock = world.lock();
  auto& module = *modules().emplace_back(std::make_unique<Module>());
  module.kernels = *std::move(kernels);
  module.device = muster::fake::required_device();
  for (const Kernel& kernel : module.kernels) {
    module.functions.push_back({&module, &kernel});
  }
  ++world.modules[module.device];
  *handle = reinterpret_cast<CUmodule>(&module);
  return CUDA_SUCCESS;
}

std::vector<std::uint64_t> copied(void** parameters, std::size_t count) {
  std::vector<std::uint64_t> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(&values[i], parameters[i], sizeof values[i]);
  }
  return values;
}

// The dry run happens without the lock, so that other threads need not wait for it. Meanwhile the
// launch is counted, so the module stays loaded.
CUresult launch(CUfunction kernel_handle,
                muster::fake::Launch grid,
                void** parameters,
                CUstream stream_handle) {
  World& world = World::get();
  auto lock = world.lock();
  const Function& function = *reinterpret_cast<Function*>(kernel_handle);
  Module& module = module_of(reinterpret_cast<CUmodule>(function.module));
  const Kernel& kernel = *function.kernel;
  grid.parameters = copied(parameters, kernel.parameters);
  Stream& stream = world.stream_of(stream_handle, current_device());
  require(stream.device == current_device(), "a kernel is launched on a stream of another device");
  ++module.launches;
  lock.unlock();
  auto uses = muster::fake::foresee(kernel, grid);
  if (!uses) {
    violation("a kernel: " + uses.error());
  }
  lock.lock();
  world.order.enqueue(stream.number);
  for (const auto* spans : {&uses->reads, &uses->writes}) {
    for (const Span& span : *spans) {
      world.touch(stream, span, "kernel " + kernel.name);
    }
  }
  world.push(stream, [&world, &module, &kernel, grid = std::move(grid), uses = *std::move(uses)] {
    if (const auto sentence = muster::fake::run_kernel(kernel, grid, uses)) {
      violation("a kernel: " + *sentence);
    }
    const auto held = world.lock();
    --module.launches;
  });
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return load(static_cast<const char*>(image), module);
}

CUresult cuModuleUnload(CUmodule hmod) {
  World& world = World::get();
  const auto lock = world.lock();
  Module& module = module_of(hmod);
  require(module.launches == 0,
          "a module is unloaded while a launch of its kernel is queued or running");
  module.loaded = false;
  --world.modules[module.device];
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) {
  World& world = World::get();
  const auto lock = world.lock();
  for (Function& known : module_of(hmod).functions) {
    if (known.kernel->name == name) {
      *hfunc = reinterpret_cast<CUfunction>(&known);
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_NOT_FOUND;
}

// CUDA's own names are less clear.
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name,readability-function-size)
CUresult cuLaunchKernel(CUfunction handle,
                        unsigned int blocks,
                        unsigned int blocks_y,
                        unsigned int blocks_z,
                        unsigned int threads,
                        unsigned int threads_y,
                        unsigned int threads_z,
                        unsigned int shared_bytes,
                        CUstream stream,
                        void** parameters,
                        void** extra) {
  require(blocks_y == 1 && blocks_z == 1 && threads_y == 1 && threads_z == 1 && shared_bytes == 0 &&
              extra == nullptr,
          "a kernel is launched with more than one dimension, shared memory or `extra`, which the "
          "fake has not");
  require(threads >= 1 && threads <= kBlockThreadsMax && blocks >= 1 && blocks <= kGridBlocksMax,
          "a kernel is launched with a grid or a block that no device takes");
  return launch(handle, {blocks, threads, {}}, parameters, stream);
}

int muster_fake_modules(void) {
  World& world = World::get();
  const auto lock = world.lock();
  return static_cast<int>(
      std::ranges::count_if(modules(), [](const auto& module) { return module->loaded; }));
}

unsigned long muster_fake_module_loads(void) {
  World& world = World::get();
  const auto lock = world.lock();
  return modules().size();
}

}  // extern "C"
