// SPDX-License-Identifier: Apache-2.0
// The rules for every call.
#include "nccl/fakes/nccl/comm.hpp"
#include "nccl/fakes/violation.hpp"

#include <array>
#include <mutex>

namespace muster::fake {
namespace {

constexpr std::size_t kMostDevices = 64;

// The thread's call that is inside NCCL, by device.
std::array<std::atomic<const char*>, kMostDevices>& all_inside() {
  static std::array<std::atomic<const char*>, kMostDevices> calls{};
  return calls;
}

void take(std::atomic<const char*>& place, const char* call, const char* whose) {
  const char* other = place.exchange(call);
  if (other != nullptr) {
    violation(std::string(call) + " is called while another thread is inside " + other +
              " of the same " + whose);
  }
}

std::atomic<const char*>& inside(const Comm& comm) {
  return all_inside()[static_cast<std::size_t>(comm.device) % kMostDevices];
}

}  // namespace

Inside::Inside(Comm* comm, const char* call, Whom alone)
    : comm_(comm), alone_(alone == Whom::same_device) {
  if (alone_) {
    take(inside(*comm), call, "device");
  }
  if (comm->inside != nullptr && comm->life == Life::aborted) {
    violation(std::string(call) + " is called with a communicator that was aborted");
  }
  take(comm->inside, call, "communicator");
  for (long ms = 0; ms < comm->knobs.call_ms && comm->segment; ++ms) {
    static_cast<void>(comm->segment->pause());
  }
}

Inside::~Inside() {
  comm_->inside = nullptr;
  if (alone_) {
    inside(*comm_) = nullptr;
  }
}

Comm& comm_of(ncclComm_t handle, const char* call) {
  auto* comm = reinterpret_cast<Comm*>(handle);
  if (comm == nullptr) {
    violation(std::string(call) + " is called with a communicator that is not there yet");
  }
  if (comm->life == Life::destroyed || comm->life == Life::aborted) {
    violation(std::string(call) + " is called with a communicator that was " +
              (comm->life == Life::aborted ? "aborted" : "destroyed"));
  }
  return *comm;
}

Comm& comm_at_rest(ncclComm_t handle, const char* call) {
  Comm& comm = comm_of(handle, call);
  if (comm.busy()) {
    violation(std::string(call) +
              " is called while the communicator is in progress: poll ncclCommGetAsyncError until "
              "the call before has ended");
  }
  if (comm.result != ncclSuccess) {
    violation(std::string(call) + " is called after the communicator has failed");
  }
  if (comm.life == Life::finalized) {
    violation(std::string(call) + " is called after ncclCommFinalize");
  }
  int device = -1;
  if (cuCtxGetDevice(&device) != CUDA_SUCCESS || device != comm.device) {
    violation(std::string(call) + " is called without the communicator's device being current");
  }
  return comm;
}

}  // namespace muster::fake
