// SPDX-License-Identifier: Apache-2.0
#include "agent/failures/failure_hint.hpp"

#include "agent/failures/report.hpp"
#include "agent/failures/traceback.hpp"
#include "base/printable.hpp"
#include "base/text.hpp"

#include <fmt/core.h>

#include <csignal>
#include <string_view>

namespace muster {
namespace {

// A thread of PyTorch's C++ asks for Python's lock while Python exits, is ended below code that may
// not throw, and std::terminate() aborts the process.
bool is_abort_at_exit(const WorkerFailure& failure) {
  return failure.status.signaled && failure.status.value == SIGABRT &&
         failure.stderr_tail.contains("terminate called without an active exception") &&
         !failure.stderr_tail.contains("Traceback (most recent call last):");
}

// The exception's last line; of one that is not the last of a chain the program knew.
bool is_missing_module(const WorkerFailure& failure) {
  const std::string traceback = traceback_of(failure);
  const std::string_view text = trim(traceback);
  const auto line = text.rfind('\n');
  return line != std::string_view::npos &&
         without_rank(text.substr(line + 1)).starts_with("ModuleNotFoundError: No module named ");
}

}  // namespace

std::string hint_for(const WorkerFailure& failure) {
  if (is_abort_at_exit(failure)) {
    return "after the end of a PyTorch program this is a bug of PyTorch (pytorch#190489): delete "
           "models in DistributedDataParallel and call destroy_process_group() before it ends";
  }
  if (!failure.python.empty() && is_missing_module(failure)) {
    return printable(
        fmt::format("the worker ran with {}; install the module there, or set "
                    "PYTHON_EXEC to the Python that has it",
                    failure.python));
  }
  return {};
}

}  // namespace muster
