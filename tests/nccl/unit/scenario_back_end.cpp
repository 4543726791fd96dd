// SPDX-License-Identifier: Apache-2.0
#include "base/clock.hpp"
#include "collective/nccl/planted.hpp"
#include "nccl/unit/fakes.hpp"
#include "nccl/unit/scenario.hpp"

#include <array>
#include <atomic>
#include <cstdio>

namespace muster::testing {
namespace {

using Body = std::function<collective::Result<void>(nccl::NcclCommunicator&, int rank)>;

// Two ranks, each of which runs the body on its communicator.
int two_ranks(const Body& body, bool register_buffers = false) {
  LocalStore store;
  std::atomic<int> failed{0};
  on_ranks(2, [&](int rank) {
    auto made =
        join({.store = store, .rank = rank, .size = 2, .register_buffers = register_buffers});
    const auto done = made ? body(**made, rank) : std::unexpected(made.error());
    if (!done) {
      failed = 1;
      std::fprintf(stderr, "rank %d: %s\n", rank, done.error().text.c_str());
    }
  });
  return failed;
}

collective::Result<std::shared_ptr<collective::Pending>> start_sum(
    nccl::NcclCommunicator& communicator, DeviceMemory& memory, int device, Op op = Op::sum) {
  Request what = request(Kind::all_reduce, DType::f32, 4, device, memory);
  what.op = op;
  return communicator.start(what);
}

collective::Result<void> sum_once(nccl::NcclCommunicator& communicator,
                                  DeviceMemory& memory,
                                  int device,
                                  Op op = Op::sum) {
  const auto work = start_sum(communicator, memory, device, op);
  return work ? (*work)->wait(Duration::zero())
              : collective::Result<void>(std::unexpected(work.error()));
}

const std::vector<std::byte>& ones() {
  static const auto kOnes = elements(DType::f32, 4, [](std::size_t) { return 1.0; });
  return kOnes;
}

int sums(const std::string& faults) {
  const Faults planned(faults);
  return two_ranks([](nccl::NcclCommunicator& communicator, int rank) {
    collective::Result<void> done;
    DeviceMemory memory(rank, 16);
    memory.upload(ones());
    for (int i = 0; i < 30 && done; ++i) {
      done = sum_once(communicator, memory, rank);
      static_cast<void>(memory.download());
    }
    return done;
  });
}

// The host does not wait between the upload, the sum and the download.
int on_a_stream() {
  return two_ranks([](nccl::NcclCommunicator& communicator, int rank) {
    const auto device = *nccl::GpuDevice::open(fake_driver(), rank);
    const nccl::CurrentDevice current(*device);
    const auto stream = *nccl::GpuStream::create(device);
    DeviceMemory memory(rank, 16);
    const auto place = reinterpret_cast<CUdeviceptr>(memory.get());
    std::vector<std::byte> back(16);
    const auto want = elements(DType::f32, 4, [](std::size_t) { return 2.0; });
    device->cuda().copy_to_device_async(place, ones().data(), 16, stream->get());
    Request what = request(Kind::all_reduce, DType::f32, 4, rank, memory);
    what.stream = stream->get();
    const auto work = communicator.start(what);
    const auto done = work ? (*work)->wait_stream(stream->get())
                           : collective::Result<void>(std::unexpected(work.error()));
    device->cuda().copy_from_device_async(back.data(), place, 16, stream->get());
    device->cuda().stream_synchronize(stream->get());
    return back == want ? done : std::unexpected(collective::Error{.text = "a wrong sum"});
  });
}

int with_factor() {
  return two_ranks([](nccl::NcclCommunicator& communicator, int rank) {
    DeviceMemory memory(rank, 16);
    memory.upload(ones());
    return sum_once(communicator, memory, rank, Op::premul_sum);
  });
}

// While a sum is in progress. If a split should not wait for it, the sum never completes.
int split_in_two() {
  return two_ranks([](nccl::NcclCommunicator& communicator, int rank) -> collective::Result<void> {
    const auto device = *nccl::GpuDevice::open(fake_driver(), rank);
    const nccl::CurrentDevice current(*device);
    DeviceMemory memory(rank, 16);
    memory.upload(ones());
    std::binary_semaphore gate(nccl::planted("split does not wait") ? 0 : 1);
    close_gate(device->cuda(), nullptr, gate);
    const auto sum = start_sum(communicator, memory, rank);
    const auto child = communicator.split(rank, 0);
    const auto done = sum ? (*sum)->wait(Duration::zero()) : std::unexpected(sum.error());
    return child ? done : std::unexpected(child.error());
  });
}

int registered_memory() {
  return two_ranks(
      [](nccl::NcclCommunicator& communicator, int) -> collective::Result<void> {
        const auto memory = communicator.alloc(4096);
        return memory ? collective::Result<void>() : std::unexpected(memory.error());
      },
      true);
}

// The failure is expected; the test is about what follows.
int after_a_failure() {
  const Faults planned("async_error_at=2:3");
  LocalStore store;
  on_ranks(2, [&](int rank) {
    auto made = join({.store = store, .rank = rank, .size = 2});
    DeviceMemory memory(rank, 16);
    memory.upload(ones());
    static_cast<void>(sum_once(**made, memory, rank));
    static_cast<void>(sum_once(**made, memory, rank));
    (*made)->abort({.code = collective::Errc::aborted, .text = "enough"});
    (*made)->wait_for_abort();
    static_cast<void>(sum_once(**made, memory, rank));
  });
  return 0;
}

// The second operation follows a failure that must not have been overlooked.
int operation_after_a_failure() {
  const Faults planned("async_error_at=1:3 in_progress=0");
  LocalStore store;
  auto made = join({.store = store});
  DeviceMemory memory(0, 16);
  memory.upload(ones());
  const auto first = start_sum(**made, memory, 0);
  const auto waited = (*first)->wait(std::chrono::milliseconds(500));
  const auto second = start_sum(**made, memory, 0);
  return !waited && !second ? 0 : 1;
}

// Errors are reported only once the buffer is no longer in use, so it may be freed immediately. The
// operation is queued immediately, as in NCCL 2.18, so that the call itself does not fail.
int free_after_an_error() {
  const Faults planned("async_error_at=1:3 call_ms=20 in_progress=0");
  LocalStore store;
  auto made = join({.store = store});
  DeviceMemory memory(0, 16);
  memory.upload(ones());
  return sum_once(**made, memory, 0) ? 1 : 0;
}

// The GPU cannot be stopped, so the process exits with a special code and prints the reason.
int abort_hangs() {
  const Faults planned("hang_at=1 abort_hangs");
  LocalStore store;
  auto made = join({.store = store});
  DeviceMemory memory(0, 16);
  const auto work = start_sum(**made, memory, 0);
  (*made)->abort({.code = collective::Errc::aborted, .text = "the test's reason"});
  static_cast<void>((*work)->wait(Duration::zero()));
  return 1;
}

// Two communicators on one GPU lack a peer each. NCCL's abort of one waits for the GPU, and
// therefore also for the operation of the other.
int two_communicators_hang() {
  const Faults planned("hang_at=1");
  LocalStore store;
  auto one = join({.store = store});
  auto other = join({.store = store, .epoch = 1});
  DeviceMemory memory(0, 16);
  DeviceMemory more(0, 16);
  const auto of_one = start_sum(**one, memory, 0);
  const auto of_other = start_sum(**other, more, 0);
  for (auto* communicator : {one->get(), other->get()}) {
    communicator->abort({.code = collective::Errc::aborted, .text = "a peer has died"});
  }
  const auto first = (*of_one)->wait(Duration::zero());
  const auto second = (*of_other)->wait(Duration::zero());
  return !first && !second ? 0 : 1;
}

// One communicator is finalized while another one on its GPU lacks a peer and must be aborted.
int leaves_while_another_hangs() {
  LocalStore store;
  auto leaving = join({.store = store});
  const Faults planned("hang_at=1");
  auto hanging = join({.store = store, .epoch = 1});
  DeviceMemory memory(0, 16);
  const auto work = start_sum(**hanging, memory, 0);
  std::thread other([&] { leaving->reset(); });
  const auto awaiting = extra_of<int (*)()>(MUSTER_FAKE_CUDA, "muster_fake_awaiting");
  while (awaiting() == 0) {
    std::this_thread::yield();
  }
  (*hanging)->abort({.code = collective::Errc::aborted, .text = "a peer has died"});
  const auto ended = (*work)->wait(Duration::zero());
  other.join();
  return !ended ? 0 : 1;
}

// An abort waits for the caller's work, before or after the operation, much longer than for its
// own. This must neither terminate the process nor count as a hang of the operation.
int abort_behind_the_callers_work(bool work_comes_first) {
  const Faults planned("hang_at=1");
  LocalStore store;
  constexpr Duration kAbortTimeout = std::chrono::milliseconds(30);
  auto made = join({.store = store, .abort_timeout = kAbortTimeout});
  const auto device = *nccl::GpuDevice::open(fake_driver(), 0);
  const nccl::CurrentDevice current(*device);
  DeviceMemory memory(0, 16);
  memory.upload(ones());
  std::binary_semaphore gate{0};
  if (work_comes_first) {
    close_gate(device->cuda(), nullptr, gate);
  }
  const auto work = start_sum(**made, memory, 0);
  if (!work_comes_first) {
    close_gate(device->cuda(), nullptr, gate);
  }
  (*made)->abort({.code = collective::Errc::aborted, .text = "enough"});
  // The memory stays in use as long as the caller's work runs, but no timeout expires.
  const TimePoint until = steady_now() + 10 * kAbortTimeout;
  while (work_comes_first && steady_now() < until) {
    if ((*work)->done()) {
      return 1;
    }
    std::this_thread::yield();
  }
  const auto early = work_comes_first
                         ? collective::Result<void>(std::unexpected(collective::Error{}))
                         : (*work)->wait(Duration::zero());
  gate.release();
  const auto ended = (*work)->wait(Duration::zero());
  return !early && !ended && ended.error().code == collective::Errc::aborted ? 0 : 1;
}

// Memory from alloc() may be used on any stream immediately.
int new_memory() {
  LocalStore store;
  auto made = join({.store = store});
  const auto memory = (*made)->alloc(64);
  const auto device = *nccl::GpuDevice::open(fake_driver(), 0);
  const nccl::CurrentDevice current(*device);
  const auto stream = *nccl::GpuStream::create(device);
  std::array<char, 64> back{};
  device->cuda().copy_from_device_async(
      back.data(), reinterpret_cast<CUdeviceptr>(*memory), 64, stream->get());
  device->cuda().stream_synchronize(stream->get());
  return back == std::array<char, 64>{} ? 0 : 1;
}

// An operation cannot be part of a graph, and the stream must stay unchanged.
int in_a_graph() {
  LocalStore store;
  auto made = join({.store = store});
  DeviceMemory memory(0, 16);
  memory.upload(ones());
  const auto device = *nccl::GpuDevice::open(fake_driver(), 0);
  const nccl::CurrentDevice current(*device);
  const auto stream = *nccl::GpuStream::create(device);
  const auto capture = extra_of<void (*)(CUstream, int)>(MUSTER_FAKE_CUDA, "muster_fake_capture");
  Request what = request(Kind::all_reduce, DType::f32, 4, 0, memory);
  what.stream = stream->get();
  capture(stream->get(), 1);
  const auto refused = start_if_possible(**made, what);
  capture(stream->get(), 0);
  const auto work = (*made)->start(what);
  return !refused && refused.error().code == collective::Errc::unsupported && work &&
                 (*work)->wait(Duration::zero())
             ? 0
             : 1;
}

// A version of NCCL without fp8 can still transfer it.
int fp8_of_an_old_nccl() {
  const Faults planned("version=22304");
  auto old = std::make_shared<nccl::NcclLibrary>(*fake_nccl());
  old->version = 22304;
  LocalStore store;
  auto made = join({.store = store, .library = old});
  DeviceMemory memory(0, 16);
  memory.upload(ones());
  Request what = request(Kind::broadcast, DType::f8e4m3, 16, 0, memory);
  const auto moved = (*made)->start(what);
  what.kind = Kind::all_reduce;
  const auto summed = start_if_possible(**made, what);
  return moved && (*moved)->wait(Duration::zero()) && !summed &&
                 summed.error().code == collective::Errc::unsupported
             ? 0
             : 1;
}

int while_a_graph_is_captured() {
  static_cast<void>(fake_driver());
  const auto capturing = extra_of<void (*)(int)>(MUSTER_FAKE_CUDA, "muster_fake_capturing");
  std::binary_semaphore late{0};
  return two_ranks([&](nccl::NcclCommunicator& communicator, int rank) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    fake_driver()->call.exchange_capture_mode(&mode);
    DeviceMemory memory(rank, 16);
    memory.upload(ones());
    // The first operation would wait for both ranks inside the call.
    if (auto first = sum_once(communicator, memory, rank); !first) {
      return first;
    }
    capturing(1);
    // Rank 1 is late, so the watchdog of rank 0 has queried the event by then.
    if (rank == 1) {
      late.acquire();
    }
    const auto work = start_sum(communicator, memory, rank);
    if (rank == 0) {
      static_cast<void>(work && (*work)->wait(5 * nccl::NcclWatchdog::kPeriod));
      late.release();
    }
    const auto done = work ? (*work)->wait(Duration::zero())
                           : collective::Result<void>(std::unexpected(work.error()));
    return done;
  });
}

// Both ranks are killed with the process in the middle of their second operation.
int killed_inside() {
  const Faults planned("die_at=2@1");
  return two_ranks([](nccl::NcclCommunicator& communicator, int rank) -> collective::Result<void> {
    DeviceMemory memory(rank, 16);
    memory.upload(ones());
    for (int i = 1; i <= 3; ++i) {
      if (auto done = sum_once(communicator, memory, rank); !done) {
        return done;
      }
      if (rank == 1) {
        std::fprintf(stderr, "sum %d is done\n", i);
      }
    }
    return {};
  });
}

int versions_differ() {
  const Faults planned("version=22705@1");
  auto other = std::make_shared<nccl::NcclLibrary>(*fake_nccl());
  other->version = 22705;
  LocalStore store;
  std::atomic<int> refused{0};
  on_ranks(2, [&](int rank) {
    auto made =
        join({.store = store, .rank = rank, .size = 2, .library = rank == 0 ? fake_nccl() : other});
    refused += made ? 0 : 1;
  });
  return refused == 2 ? 0 : 1;
}

}  // namespace

const std::map<std::string, Scenario>& back_end_scenarios() {
  static const std::map<std::string, Scenario> kScenarios = {
      {"sums", [] { return sums(""); }},
      {"sums in progress", [] { return sums("in_progress=3"); }},
      {"slow calls", [] { return sums("call_ms=3"); }},
      {"on a stream", on_a_stream},
      {"with factor", with_factor},
      {"split", split_in_two},
      {"registered memory", registered_memory},
      {"after a failure", after_a_failure},
      {"operation after a failure", operation_after_a_failure},
      {"free after an error", free_after_an_error},
      {"two communicators hang", two_communicators_hang},
      {"leaves while another hangs", leaves_while_another_hangs},
      {"abort behind the caller's work", [] { return abort_behind_the_callers_work(true); }},
      {"abort before the caller's work", [] { return abort_behind_the_callers_work(false); }},
      {"new memory", new_memory},
      {"in a graph", in_a_graph},
      {"fp8 of an old NCCL", fp8_of_an_old_nccl},
      {"while a graph is captured", while_a_graph_is_captured},
      {"versions differ", versions_differ}};
  return kScenarios;
}

const std::map<std::string, Scenario>& ending_scenarios() {
  static const std::map<std::string, Scenario> kScenarios = {{"abort hangs", abort_hangs},
                                                             {"killed inside", killed_inside}};
  return kScenarios;
}

}  // namespace muster::testing
