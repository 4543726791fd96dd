// SPDX-License-Identifier: Apache-2.0
// Comm: a communicator of the fake NCCL, with the state that its rules need. Never freed, so that a
// use after its end is detected.
#pragma once

#include "nccl/fakes/nccl/arithmetic.hpp"
#include "nccl/fakes/nccl/knobs.hpp"
#include "nccl/fakes/nccl/segment.hpp"

#include <cuda.h>
#include <nccl.h>

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace muster::fake {

struct Scalar {
  ncclDataType_t type;
  double value;
};

enum class Life { alive, finalized, destroyed, aborted };

struct Comm {
  int rank = 0;
  int size = 1;
  int device = -1;
  std::string path;
  Knobs knobs;
  std::unique_ptr<Segment> segment;  // after the startup job has created it
  std::atomic<Life> life{Life::alive};

  std::atomic<int> result{ncclSuccess};  // the communicator's asynchronous error
  std::atomic<bool> job_runs{false};     // true while starting, splitting or finalizing
  std::thread job;
  std::atomic<long> polls_left{0};  // an operation remains in progress for this many polls
  std::atomic<bool> aborting{false};

  std::atomic<const char*> inside{nullptr};  // the NCCL call that a thread is in
  std::atomic<int> kernels{0};               // number of queued or running kernels
  CUstream stream = nullptr;
  std::set<std::size_t> connected;  // kinds of collectives whose ranks are connected
  std::uint64_t operations = 0;
  int splits = 0;
  int next_scalar = ncclNumOps;
  std::map<int, Scalar> scalars;
  std::set<void*> registered;

  [[nodiscard]] bool busy() const { return job_runs || polls_left > 0; }

  void fail(ncclResult_t with) { result = with; }
};

// Runs `body` in the communicator's own thread; polls report progress until it ends.
template <class Body>
void start_job(Comm& comm, Body body) {
  if (comm.job.joinable()) {
    comm.job.join();
  }
  comm.job_runs = true;
  comm.job = std::thread([&comm, body = std::move(body)] {
    body();
    comm.job_runs = false;
  });
}

// Performs the checks, and terminates the program if a rule is broken. Exists for the duration of
// each call.
class Inside {
 public:
  enum class Whom { same_device, same_communicator };  // must not be inside at the same time

  Inside(Comm* comm, const char* call, Whom alone = Whom::same_device);
  ~Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  Comm* comm_;
  bool alone_;  // on its device
};

[[nodiscard]] Comm& comm_of(ncclComm_t handle, const char* call);
// Also checks the rules for calls that need an idle communicator.
[[nodiscard]] Comm& comm_at_rest(ncclComm_t handle, const char* call);

void set_last_error(const std::string& text);
// True between ncclGroupStart and ncclGroupEnd in this thread.
[[nodiscard]] bool in_group();

}  // namespace muster::fake
