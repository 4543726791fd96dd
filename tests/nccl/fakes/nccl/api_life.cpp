// SPDX-License-Identifier: Apache-2.0
// From the unique id to the end of a communicator, and queries to the library itself.
#include "nccl/fakes/cuda/extra.h"
#include "nccl/fakes/nccl/comm.hpp"
#include "nccl/fakes/violation.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

#include <unistd.h>

using muster::fake::Came;
using muster::fake::Comm;
using muster::fake::comm_at_rest;
using muster::fake::comm_of;
using muster::fake::Inside;
using muster::fake::Knobs;
using muster::fake::Life;
using muster::fake::Member;
using muster::fake::read_knobs;
using muster::fake::require;
using muster::fake::Segment;
using muster::fake::set_last_error;
using muster::fake::start_job;
using muster::fake::violation;

namespace {

std::atomic<int> registered{0};

std::string folder() {
  const char* text = std::getenv("MUSTER_FAKE_NCCL_DIR");  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? "/tmp" : text;
}

std::string host_identity() {
  const char* text = std::getenv("NCCL_HOSTID");  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? "this host" : text;
}

int version_of(const Knobs& knobs) {
  return knobs.version == 0 ? NCCL_VERSION_CODE : static_cast<int>(knobs.version);
}

struct LastError {
  std::mutex mutex;
  std::array<char, 1024> text{};
};

LastError& last_error() {
  static auto* own = new LastError;
  return *own;
}

// Never freed, so that a use after its end is detected.
Comm& keep(std::unique_ptr<Comm> comm) {
  static auto* mutex = new std::mutex;
  static auto* all = new std::vector<std::unique_ptr<Comm>>;
  const std::scoped_lock lock(*mutex);
  return *all->emplace_back(std::move(comm));
}

void check_config(const ncclConfig_t* config, const char* call) {
  if (config == nullptr || config->magic != 0xcafebeef || config->blocking != 0) {
    violation(std::string(call) +
              " without a config that says blocking = 0: such a communicator "
              "cannot be aborted");
  }
}

// Waits until all ranks have arrived, each with a different rank number. The result stays in the
// communicator.
void meet(Comm& comm) {
  Segment& segment = *comm.segment;
  Member& own = segment.own();
  own.version = version_of(comm.knobs);
  own.device = comm.device;
  std::strncpy(own.host.data(), host_identity().c_str(), own.host.size() - 1);
  const Came came = segment.barrier(muster::fake::Where::life);
  segment.unlink();
  if (came != Came::yes) {
    set_last_error("fake: a rank went away while the communicator was started");
    comm.fail(came == Came::aborted ? ncclInternalError : ncclRemoteError);
    return;
  }
  for (int rank = 0; rank < comm.size; ++rank) {
    const Member& other = segment.member(rank);
    require(other.version == own.version, "ranks with different versions of NCCL meet");
    if (rank != comm.rank && other.device == own.device &&
        std::strcmp(other.host.data(), own.host.data()) == 0) {
      set_last_error("Duplicate GPU detected : rank " + std::to_string(rank) + " and rank " +
                     std::to_string(comm.rank) + " both on CUDA device " +
                     std::to_string(own.device));
      comm.fail(ncclInvalidUsage);
    }
  }
}

void begin(Comm& comm) {
  if (comm.knobs.init_error != 0) {
    set_last_error("fake: starting fails, as the test asked for");
    comm.fail(static_cast<ncclResult_t>(comm.knobs.init_error));
    return;
  }
  long rounds = comm.knobs.init_hangs ? -1 : comm.knobs.init_ms;
  while (rounds != 0 && !comm.aborting) {
    static_cast<void>(comm.segment->pause());
    rounds -= rounds > 0 ? 1 : 0;
  }
  if (!comm.aborting) {
    meet(comm);
  }
}

void fill_child(Comm& child, Comm& parent) {
  Segment& segment = *parent.segment;
  const Member& own = segment.own();
  for (int rank = 0; rank < parent.size; ++rank) {
    const Member& other = segment.member(rank);
    const bool before = other.key < own.key || (other.key == own.key && rank < parent.rank);
    child.rank += other.color == own.color && before ? 1 : 0;
    child.size += other.color == own.color ? 1 : 0;
  }
  child.device = parent.device;
  child.knobs = parent.knobs;
  child.path = parent.path + "-" + std::to_string(parent.splits) + "-" + std::to_string(own.color);
  child.segment = std::make_unique<Segment>(child.path, child.rank, child.size);
  child.segment->blind = child.knobs.blind;
}

void split(Comm& parent, ncclComm_t* out) {
  Came came = parent.segment->barrier(muster::fake::Where::life);
  ++parent.splits;
  std::unique_ptr<Comm> child;
  if (came == Came::yes && parent.segment->own().color != NCCL_SPLIT_NOCOLOR) {
    child = std::make_unique<Comm>();
    child->size = 0;
    fill_child(*child, parent);
    meet(*child);
  }
  came = came == Came::yes ? parent.segment->barrier(muster::fake::Where::life) : came;
  if (came != Came::yes) {
    parent.fail(came == Came::aborted ? ncclInternalError : ncclRemoteError);
  }
  *out = child ? reinterpret_cast<ncclComm_t>(&keep(std::move(child))) : nullptr;
}

void finish_kernels(Comm& comm) {
  while (comm.kernels > 0) {
    static_cast<void>(comm.segment->pause());
  }
}

}  // namespace

void muster::fake::set_last_error(const std::string& text) {
  const std::scoped_lock lock(last_error().mutex);
  auto& buffer = last_error().text;
  std::strncpy(buffer.data(), text.c_str(), buffer.size() - 1);
}

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = version_of(read_knobs(-1));
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> number{0};
  const std::string path =
      folder() + "/muster-fake-nccl-" + std::to_string(getpid()) + "-" + std::to_string(number++);
  require(path.size() < sizeof id->internal, "the folder of the fake's files has too long a name");
  Segment::create(path);
  std::memset(id, 0, sizeof *id);
  std::memcpy(id->internal, path.data(), path.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(
    ncclComm_t* out, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  check_config(config, "ncclCommInitRankConfig");
  require(!muster::fake::in_group(), "ncclCommInitRankConfig inside a group");
  require(rank >= 0 && rank < size && size <= muster::fake::kMostRanks, "a rank that is none");
  auto comm = std::make_unique<Comm>();
  comm->rank = rank;
  comm->size = size;
  comm->path = id.internal;
  comm->knobs = read_knobs(rank);
  if (cuCtxGetDevice(&comm->device) != CUDA_SUCCESS) {
    violation("ncclCommInitRankConfig is called without a current context");
  }
  const Inside inside(comm.get(), "ncclCommInitRankConfig");
  comm->segment = std::make_unique<Segment>(comm->path, rank, size);
  comm->segment->blind = comm->knobs.blind;
  Comm& own = keep(std::move(comm));
  start_job(own, [&own] { begin(own); });
  *out = reinterpret_cast<ncclComm_t>(&own);
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* result) {
  Comm& comm = comm_of(handle, "ncclCommGetAsyncError");
  const Inside inside(&comm, "ncclCommGetAsyncError");
  if (comm.polls_left > 0 && --comm.polls_left == 0 && comm.stream != nullptr) {
    muster_fake_hold(comm.stream, nullptr);
  }
  const auto failed = static_cast<ncclResult_t>(comm.result.load());
  *result = failed != ncclSuccess ? failed : comm.busy() ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}

// Returns success while it is in progress, like the source of 2.28: only the parent's asynchronous
// error shows the progress.
ncclResult_t ncclCommSplit(
    ncclComm_t handle, int color, int key, ncclComm_t* out, ncclConfig_t* config) {
  Comm& comm = comm_at_rest(handle, "ncclCommSplit");
  if (config != nullptr) {
    check_config(config, "ncclCommSplit");
  }
  const Inside inside(&comm, "ncclCommSplit");
  *out = nullptr;
  comm.segment->own().color = color;
  comm.segment->own().key = key;
  require(comm.kernels == 0, "ncclCommSplit while an operation of the parent is under way");
  comm.polls_left = 1;
  start_job(comm, [&comm, out] { split(comm, out); });
  return ncclSuccess;
}

ncclResult_t ncclCommCount(ncclComm_t handle, int* size) {
  *size = comm_at_rest(handle, "ncclCommCount").size;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t handle, int* rank) {
  *rank = comm_at_rest(handle, "ncclCommUserRank").rank;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  Comm& comm = comm_at_rest(handle, "ncclCommFinalize");
  const Inside inside(&comm, "ncclCommFinalize");
  start_job(comm, [&comm] {
    finish_kernels(comm);
    if (comm.segment->barrier(muster::fake::Where::life) == Came::peer_gone) {
      comm.fail(ncclRemoteError);
    }
  });
  comm.life = Life::finalized;
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  Comm& comm = comm_of(handle, "ncclCommDestroy");
  const Inside inside(&comm, "ncclCommDestroy", Inside::Whom::same_communicator);
  require(comm.life == Life::finalized,
          "ncclCommDestroy without ncclCommFinalize, which may block");
  require(!comm.busy(), "ncclCommDestroy before ncclCommFinalize has ended");
  require(comm.scalars.empty(), "a communicator is destroyed before its operators");
  require(comm.registered.empty(),
          "a communicator is destroyed before its buffers are deregistered");
  comm.life = Life::destroyed;
  comm.segment->own().left = 1;
  comm.job.join();
  muster_fake_await_device(comm.device);  // as in ncclCommAbort
  return ncclSuccess;
}

// Finally frees memory, and therefore waits until the device is idle, including operations of other
// communicators, which may need aborts of their own. So other threads must be able to enter.
ncclResult_t ncclCommAbort(ncclComm_t handle) {
  Comm& comm = comm_of(handle, "ncclCommAbort");
  const Inside inside(&comm, "ncclCommAbort", Inside::Whom::same_communicator);
  comm.life = Life::aborted;
  while (comm.knobs.abort_hangs) {
    pause();
  }
  comm.segment->own().aborted = 1;
  comm.aborting = true;
  comm.segment->abort = true;
  comm.segment->wake();
  if (comm.job.joinable()) {
    comm.job.join();
  }
  if (comm.stream != nullptr) {
    muster_fake_hold(comm.stream, nullptr);
  }
  finish_kernels(comm);
  if (comm.stream != nullptr) {
    cuStreamSynchronize(comm.stream);  // now the host knows that buffers are free
  }
  muster_fake_await_device(comm.device);
  comm.segment->unlink();
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  constexpr std::array kTexts = {"no error",
                                 "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
                                 "unhandled system error (run with NCCL_DEBUG=INFO for details)",
                                 "internal error - please report this issue to the NCCL developers",
                                 "invalid argument (run with NCCL_DEBUG=WARN for details)",
                                 "invalid usage (run with NCCL_DEBUG=WARN for details)",
                                 "remote process exited or there was a network error",
                                 "NCCL operation in progress"};
  const auto number = static_cast<std::size_t>(result);
  return number < kTexts.size() ? kTexts.at(number) : "unknown result code";
}

// The real library returns its internal buffer, so a reader may see half of another thread's text.
const char* ncclGetLastError(ncclComm_t /*comm*/) {
  thread_local std::array<char, 1024> copy{};
  const std::scoped_lock lock(last_error().mutex);
  copy = last_error().text;
  return copy.data();
}

ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes) {
  CUdeviceptr made = 0;
  const auto result = cuMemAlloc(&made, bytes);
  *memory = reinterpret_cast<void*>(made);
  return result == CUDA_SUCCESS ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void* memory) {
  cuMemFree(reinterpret_cast<CUdeviceptr>(memory));
  return ncclSuccess;
}

// The number of buffers registered in this process now, for tests, which find this function with
// dlsym.
int muster_fake_registered() {
  return registered;
}

ncclResult_t ncclCommRegister(ncclComm_t handle, void* memory, std::size_t bytes, void** out) {
  Comm& comm = comm_at_rest(handle, "ncclCommRegister");
  const Inside inside(&comm, "ncclCommRegister");
  require(muster_fake_bytes_from(memory) >= bytes, "memory that is not the device's is registered");
  comm.registered.insert(memory);
  ++registered;
  *out = memory;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(ncclComm_t handle, void* registration) {
  Comm& comm = comm_of(handle, "ncclCommDeregister");
  const Inside inside(&comm, "ncclCommDeregister");
  require(comm.registered.erase(registration) == 1, "a buffer is deregistered twice");
  --registered;
  return ncclSuccess;
}

}  // extern "C"
