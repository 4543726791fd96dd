// SPDX-License-Identifier: Apache-2.0
// Breaks the rules that our code has no occasion to break, by calling the fakes directly.
#include "collective/nccl/cast_kernels.hpp"
#include "nccl/unit/fakes.hpp"
#include "nccl/unit/scenario.hpp"

#include <array>
#include <cstdlib>

#include <sys/wait.h>
#include <unistd.h>

namespace muster::testing {
namespace {

// Makes the device current and creates a communicator with one rank.
struct Stage {
  Stage()
      : device(*nccl::GpuDevice::open(fake_driver(), 0)),
        current(*device),
        stream(*nccl::GpuStream::create(device)) {}

  [[nodiscard]] const nccl::CudaTable& cuda() const { return device->cuda(); }

  CUdeviceptr memory() const {
    CUdeviceptr made = 0;
    cuda().mem_alloc(&made, 64);
    return made;
  }

  void close_gate() { testing::close_gate(cuda(), stream->get(), gate); }

  std::shared_ptr<nccl::GpuDevice> device;
  nccl::CurrentDevice current;
  std::unique_ptr<nccl::GpuStream> stream;
  std::binary_semaphore gate{0};
};

// A module with a kernel that reads 2 bytes of each of up to 16 elements and writes 4 bytes.
struct Kernels : Stage {
  explicit Kernels(const std::string& text = nccl::cast_kernels(),
                   const char* name = nccl::kWidenBf16) {
    cuda().module_load_data(&module, text.c_str());
    cuda().module_get_function(&function, module, name);
  }

  void launch(CUdeviceptr source,
              CUdeviceptr target,
              CUstream on,
              std::uint64_t count = 16,
              unsigned blocks = 1) const {
    std::array<void*, 3> given{&source, &target, &count};
    cuda().launch_kernel(function, blocks, 1, 1, threads, 1, 1, 0, on, given.data(), nullptr);
  }

  CUmodule module = nullptr;
  CUfunction function = nullptr;
  unsigned threads = 32;  // of a block
  CUdeviceptr from = memory();
  CUdeviceptr to = memory();
};

void settle(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    fake_nccl()->call.get_async_error(comm, &state);
  }
}

ncclComm_t comm_of_one(const ncclUniqueId& id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  fake_nccl()->call.init_rank(&comm, 1, id, 0, &config);
  settle(comm);
  return comm;
}

ncclUniqueId new_id() {
  ncclUniqueId id = {};
  fake_nccl()->call.get_unique_id(&id);
  return id;
}

void freed_in_use() {
  Stage stage;
  const auto memory = stage.memory();
  std::array<char, 64> host{};
  stage.close_gate();
  stage.cuda().copy_to_device_async(memory, host.data(), 64, stage.stream->get());
  stage.cuda().mem_free(memory);
}

void freed_twice() {
  const Stage stage;
  const auto memory = stage.memory();
  stage.cuda().mem_free(memory);
  stage.cuda().mem_free(memory);
}

void read_before_written() {
  Stage stage;
  const auto memory = stage.memory();
  std::array<char, 64> host{};
  stage.close_gate();
  stage.cuda().copy_to_device_async(memory, host.data(), 64, stage.stream->get());
  const auto other = *nccl::GpuStream::create(stage.device);
  stage.cuda().copy_from_device_async(host.data(), memory, 64, other->get());
}

void upload_is_not_waited_for() {
  const Stage stage;
  const auto memory = stage.memory();
  std::array<char, 64> host{};
  stage.cuda().copy_to_device(memory, host.data(), 64);
  stage.cuda().copy_from_device_async(host.data(), memory, 64, stage.stream->get());
}

void buffers_overlap() {
  const Stage stage;
  const auto memory = reinterpret_cast<float*>(stage.memory());
  ncclComm_t comm = comm_of_one(new_id());
  fake_nccl()->call.all_reduce(
      memory, memory + 1, 4, ncclFloat32, ncclSum, comm, stage.stream->get());
}

void fp8_before_2_24() {
  const Stage stage;
  const Faults old("version=22304");
  const auto memory = reinterpret_cast<void*>(stage.memory());
  ncclComm_t comm = comm_of_one(new_id());
  fake_nccl()->call.all_reduce(
      memory, memory, 4, ncclFloat8e4m3, ncclSum, comm, stage.stream->get());
}

void buffer_too_short() {
  const Stage stage;
  const auto memory = reinterpret_cast<void*>(stage.memory());
  ncclComm_t comm = comm_of_one(new_id());
  fake_nccl()->call.all_reduce(memory, memory, 17, ncclFloat32, ncclSum, comm, stage.stream->get());
}

void two_streams() {
  const Stage stage;
  const auto other = *nccl::GpuStream::create(stage.device);
  const auto memory = reinterpret_cast<void*>(stage.memory());
  ncclComm_t comm = comm_of_one(new_id());
  for (CUstream stream : {stage.stream->get(), other->get()}) {
    fake_nccl()->call.all_reduce(memory, memory, 4, ncclFloat32, ncclSum, comm, stream);
    settle(comm);
  }
}

void event_after_its_end() {
  const Stage stage;
  CUevent event = nullptr;
  stage.cuda().event_create(&event, CU_EVENT_DISABLE_TIMING);
  stage.cuda().event_destroy(event);
  stage.cuda().event_record(event, stage.stream->get());
}

void event_with_timing() {
  const Stage stage;
  CUevent event = nullptr;
  stage.cuda().event_create(&event, CU_EVENT_DEFAULT);
}

void id_used_twice() {
  const Stage stage;
  const auto id = new_id();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  // The second rank never arrives, so the first one stays in progress.
  std::array<ncclComm_t, 2> comms{};
  for (auto& comm : comms) {
    fake_nccl()->call.init_rank(&comm, 2, id, 0, &config);
  }
}

void group_is_not_open() {
  fake_nccl()->call.group_end();
}

void different_operations() {
  LocalStore store;
  on_ranks(2, [&](int rank) {
    auto made = join({.store = store, .rank = rank, .size = 2});
    DeviceMemory memory(rank, 64);
    Request what = request(Kind::all_reduce, DType::f32, rank == 0 ? 4 : 5, rank, memory);
    const auto work = (*made)->start(what);
    static_cast<void>((*work)->wait(Duration::zero()));
  });
}

void cuda_after_fork() {
  const Stage stage;
  if (fork() == 0) {
    static_cast<void>(stage.memory());
    _exit(0);
  }
  // The test is about the abort in the child; this process exits in the same way.
  int status = 0;
  wait(&status);
  if (WIFSIGNALED(status)) {
    std::abort();
  }
}

void context_before_memory() {
  const Stage stage;
  static_cast<void>(stage.memory());
  stage.cuda().release_context(0);
}

void context_before_stream() {
  const Stage stage;
  stage.cuda().release_context(0);
}

void unload_while_queued() {
  Kernels stage;
  stage.close_gate();
  stage.launch(stage.from, stage.to, stage.stream->get());
  stage.cuda().module_unload(stage.module);
}

void launch_after_unload() {
  const Kernels stage;
  stage.cuda().module_unload(stage.module);
  stage.launch(stage.from, stage.to, stage.stream->get());
}

void launch_in_other_context() {
  const Kernels stage;
  const auto other = *nccl::GpuDevice::open(fake_driver(), 1);
  const nccl::CurrentDevice current(*other);
  const auto stream = *nccl::GpuStream::create(other);
  stage.launch(stage.from, stage.to, stream->get());
}

void launch_on_other_stream() {
  const auto other = *nccl::GpuDevice::open(fake_driver(), 1);
  const nccl::CurrentDevice current(*other);
  const auto stream = *nccl::GpuStream::create(other);
  const Kernels stage;
  stage.launch(stage.from, stage.to, stream->get());
}

void launch_without_blocks() {
  const Kernels stage;
  stage.launch(stage.from, stage.to, stage.stream->get(), 0, 0);
}

void kernel_goes_beyond() {
  const Kernels stage;
  stage.launch(stage.from, stage.to, stage.stream->get(), 17);
}

void freed_under_a_kernel() {
  Kernels stage;
  stage.close_gate();
  stage.launch(stage.from, stage.to, stage.stream->get());
  stage.cuda().mem_free(stage.to);
}

void read_before_a_kernel_wrote() {
  Kernels stage;
  const auto other = *nccl::GpuStream::create(stage.device);
  stage.close_gate();
  stage.launch(stage.from, stage.to, stage.stream->get());
  stage.launch(stage.to, stage.memory(), other->get());
}

void filled_while_a_kernel_reads() {
  Kernels stage;
  const auto other = *nccl::GpuStream::create(stage.device);
  stage.close_gate();
  stage.launch(stage.from, stage.to, stage.stream->get());
  stage.cuda().mem_set_async(stage.from, 0, 4, other->get());
}

void threads_meet() {
  const Kernels stage;
  stage.launch(stage.from, stage.from, stage.stream->get());
}

// Only the real run, on the stream's thread, detects it.
void address_from_data() {
  Kernels stage(
      ".version 6.0\n.target sm_53\n.address_size 64\n"
      ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c)\n{ .reg .b32 %t;\n"
      ".reg .b64 %a, %b; ld.param.u64 %a, [a]; ld.param.u64 %b, [b];\n"
      "ld.global.b32 %t, [%a]; cvt.u64.u32 %a, %t; shl.b64 %a, %a, 2; add.u64 %b, %b, %a;\n"
      "st.global.b32 [%b], %t; ret; }\n",
      "k");
  stage.threads = 1;
  stage.launch(stage.from, stage.to, stage.stream->get());
  stage.cuda().stream_synchronize(stage.stream->get());
}

}  // namespace

const std::map<std::string, Misuse>& misuse_scenarios() {
  static const std::map<std::string, Misuse> kScenarios = {
      {"memory is freed in use", {freed_in_use, "memory is freed that a copy may still use"}},
      {"memory is freed twice", {freed_twice, "not allocated, or twice"}},
      {"memory is read before it is written", {read_before_written, "reuse before the event"}},
      {"an upload is not waited for", {upload_is_not_waited_for, "reuse before the event"}},
      {"buffers overlap", {buffers_overlap, "overlap, and not as in place"}},
      {"fp8 before 2.24", {fp8_before_2_24, "fp8 is given to a NCCL before 2.24"}},
      {"a buffer is too short", {buffer_too_short, "goes beyond its buffer"}},
      {"two streams", {two_streams, "queued on two streams"}},
      {"an event is used after its end", {event_after_its_end, "a destroyed event is used"}},
      {"an event has timing", {event_with_timing, "an event with timing"}},
      {"an id is used twice", {id_used_twice, "is the unique id used again?"}},
      {"a group is not open", {group_is_not_open, "ncclGroupEnd without ncclGroupStart"}},
      {"ranks call different operations",
       {different_operations, "ranks meet in different operations"}},
      {"CUDA after a fork", {cuda_after_fork, "forked after cuInit"}},
      {"a context goes before its memory",
       {context_before_memory, "last holder before memory that is in it"}},
      {"a context goes before its stream",
       {context_before_stream, "last holder before a stream that is in it"}},
      {"a module is unloaded in use",
       {unload_while_queued, "unloaded while a launch of its kernel is queued"}},
      {"a module is used after its end",
       {launch_after_unload, "a module is used after it was unloaded"}},
      {"a kernel in another context",
       {launch_in_other_context, "a module of another device's context is used"}},
      {"a kernel on another stream",
       {launch_on_other_stream, "launched on a stream of another device"}},
      {"a grid without blocks",
       {launch_without_blocks, "with a grid or a block that no device takes"}},
      {"a kernel goes beyond its buffer",
       {kernel_goes_beyond, "kernel muster_widen_bf16 goes beyond"}},
      {"memory is freed under a kernel",
       {freed_under_a_kernel, "is freed that kernel muster_widen_bf16 may"}},
      {"memory is read before a kernel wrote",
       {read_before_a_kernel_wrote, "reads a buffer that kernel muster_widen"}},
      {"memory is filled while a kernel reads",
       {filled_while_a_kernel_reads, "a fill writes a buffer that kernel"}},
      {"threads of a kernel meet", {threads_meet, "and nothing orders the two"}},
      {"an address from data", {address_from_data, "uses memory by what it has loaded"}}};
  return kScenarios;
}

}  // namespace muster::testing
