// SPDX-License-Identifier: Apache-2.0
#include "agent/failure_hint.hpp"

#include <csignal>

namespace muster {
namespace {

// A thread of PyTorch's C++ asks for Python's lock while Python exits, is ended below code that may
// not throw, and std::terminate() aborts the process.
bool is_abort_at_exit(const WorkerFailure& failure) {
  return failure.status.signaled && failure.status.value == SIGABRT &&
         failure.stderr_tail.contains("terminate called without an active exception") &&
         !failure.stderr_tail.contains("Traceback (most recent call last):");
}

}  // namespace

std::string hint_for(const WorkerFailure& failure) {
  if (is_abort_at_exit(failure)) {
    return "after the end of a PyTorch program this is a bug of PyTorch (pytorch#190489): delete "
           "models in DistributedDataParallel and call destroy_process_group() before it ends";
  }
  return {};
}

}  // namespace muster
