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

// A PyTorch C++ thread requests the GIL while Python exits. Python then terminates the thread
// inside noexcept code, so std::terminate() aborts the process.
bool is_abort_at_exit(const WorkerFailure& failure) {
  return failure.status.signaled && failure.status.value == SIGABRT &&
         failure.stderr_tail.contains("terminate called without an active exception") &&
         !failure.stderr_tail.contains("Traceback (most recent call last):");
}

// Checks the last line of the exception, because the program handled the earlier exceptions of a
// chain.
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
    return "this is a known PyTorch bug at program exit (pytorch#190489): delete the "
           "DistributedDataParallel models and call destroy_process_group() before the program "
           "exits";
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
