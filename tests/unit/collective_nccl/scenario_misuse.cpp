// SPDX-License-Identifier: Apache-2.0
// Broken rules that our code has no place to break, by calls of the fakes' own.
#include "unit/collective_nccl/fakes.hpp"
#include "unit/collective_nccl/scenario.hpp"

#include <array>
#include <cstdlib>
#include <semaphore>

#include <sys/wait.h>
#include <unistd.h>

namespace muster::testing {
namespace {

// The device made current, and a communicator of one rank.
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

  // Nothing on the stream goes on until the gate is opened.
  void close_gate() {
    cuda().launch_host_function(
        stream->get(),
        [](void* data) { static_cast<std::binary_semaphore*>(data)->acquire(); },
        &gate);
  }

  std::shared_ptr<nccl::GpuDevice> device;
  nccl::CurrentDevice current;
  std::unique_ptr<nccl::GpuStream> stream;
  std::binary_semaphore gate{0};
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

int freed_in_use() {
  Stage stage;
  const auto memory = stage.memory();
  std::array<char, 64> host{};
  stage.close_gate();
  stage.cuda().copy_to_device_async(memory, host.data(), 64, stage.stream->get());
  stage.cuda().mem_free(memory);
  return 0;
}

int freed_twice() {
  const Stage stage;
  const auto memory = stage.memory();
  stage.cuda().mem_free(memory);
  stage.cuda().mem_free(memory);
  return 0;
}

int read_before_written() {
  Stage stage;
  const auto memory = stage.memory();
  std::array<char, 64> host{};
  stage.close_gate();
  stage.cuda().copy_to_device_async(memory, host.data(), 64, stage.stream->get());
  const auto other = *nccl::GpuStream::create(stage.device);
  stage.cuda().copy_from_device_async(host.data(), memory, 64, other->get());
  return 0;
}

int upload_is_not_waited_for() {
  const Stage stage;
  const auto memory = stage.memory();
  std::array<char, 64> host{};
  stage.cuda().copy_to_device(memory, host.data(), 64);
  stage.cuda().copy_from_device_async(host.data(), memory, 64, stage.stream->get());
  return 0;
}

int buffers_overlap() {
  const Stage stage;
  const auto memory = reinterpret_cast<float*>(stage.memory());
  ncclComm_t comm = comm_of_one(new_id());
  fake_nccl()->call.all_reduce(
      memory, memory + 1, 4, ncclFloat32, ncclSum, comm, stage.stream->get());
  return 0;
}

int fp8_before_2_24() {
  const Stage stage;
  const Faults old("version=22304");
  const auto memory = reinterpret_cast<void*>(stage.memory());
  ncclComm_t comm = comm_of_one(new_id());
  fake_nccl()->call.all_reduce(
      memory, memory, 4, ncclFloat8e4m3, ncclSum, comm, stage.stream->get());
  return 0;
}

int buffer_too_short() {
  const Stage stage;
  const auto memory = reinterpret_cast<void*>(stage.memory());
  ncclComm_t comm = comm_of_one(new_id());
  fake_nccl()->call.all_reduce(memory, memory, 17, ncclFloat32, ncclSum, comm, stage.stream->get());
  return 0;
}

int host_memory() {
  const Stage stage;
  std::array<float, 4> memory{};
  ncclComm_t comm = comm_of_one(new_id());
  fake_nccl()->call.all_reduce(
      memory.data(), memory.data(), 4, ncclFloat32, ncclSum, comm, stage.stream->get());
  return 0;
}

int two_streams() {
  const Stage stage;
  const auto other = *nccl::GpuStream::create(stage.device);
  const auto memory = reinterpret_cast<void*>(stage.memory());
  ncclComm_t comm = comm_of_one(new_id());
  for (CUstream stream : {stage.stream->get(), other->get()}) {
    fake_nccl()->call.all_reduce(memory, memory, 4, ncclFloat32, ncclSum, comm, stream);
    settle(comm);
  }
  return 0;
}

int event_after_its_end() {
  const Stage stage;
  CUevent event = nullptr;
  stage.cuda().event_create(&event, CU_EVENT_DISABLE_TIMING);
  stage.cuda().event_destroy(event);
  stage.cuda().event_record(event, stage.stream->get());
  return 0;
}

int event_with_timing() {
  const Stage stage;
  CUevent event = nullptr;
  stage.cuda().event_create(&event, CU_EVENT_DEFAULT);
  return 0;
}

int id_used_twice() {
  const Stage stage;
  const auto id = new_id();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  // The second rank never comes, so that the first one is still there.
  std::array<ncclComm_t, 2> comms{};
  for (auto& comm : comms) {
    fake_nccl()->call.init_rank(&comm, 2, id, 0, &config);
  }
  return 0;
}

int group_is_not_open() {
  fake_nccl()->call.group_end();
  return 0;
}

int different_operations() {
  LocalStore store;
  on_ranks(2, [&](int rank) {
    auto made = join({.store = store, .rank = rank, .size = 2});
    DeviceMemory memory(rank, 64);
    Request what = request(Kind::all_reduce, DType::f32, rank == 0 ? 4 : 5, rank);
    what.in = memory.get();
    what.out = memory.get();
    const auto work = (*made)->start(what);
    static_cast<void>((*work)->wait(Duration::zero()));
  });
  return 0;
}

int cuda_after_fork() {
  const Stage stage;
  if (fork() == 0) {
    static_cast<void>(stage.memory());
    _exit(0);
  }
  // The child's abort is the test's; this process ends as it did.
  int status = 0;
  wait(&status);
  return WIFSIGNALED(status) ? (std::abort(), 1) : 0;
}

}  // namespace

const std::map<std::string, Scenario>& misuse_scenarios() {
  static const std::map<std::string, Scenario> kScenarios = {
      {"memory is freed in use", freed_in_use},
      {"memory is freed twice", freed_twice},
      {"memory is read before it is written", read_before_written},
      {"an upload is not waited for", upload_is_not_waited_for},
      {"buffers overlap", buffers_overlap},
      {"fp8 before 2.24", fp8_before_2_24},
      {"a buffer is too short", buffer_too_short},
      {"a buffer of the host", host_memory},
      {"two streams", two_streams},
      {"an event is used after its end", event_after_its_end},
      {"an event has timing", event_with_timing},
      {"an id is used twice", id_used_twice},
      {"a group is not open", group_is_not_open},
      {"ranks call different operations", different_operations},
      {"CUDA after a fork", cuda_after_fork}};
  return kScenarios;
}

}  // namespace muster::testing
