// SPDX-License-Identifier: Apache-2.0
// The folder for the traces of musterctl profile. Root may profile the job of another user, which
// may replace files in folders of that user by links. Stateless.
#pragma once

#include "base/error.hpp"

#include <string>

#include <sys/types.h>

namespace muster {

struct TraceFolder {
  std::string name;  // without a slash at the end
  bool for_user =
      false;  // root has given it to another user: only processes of the job write there
};

// Creates the folder `wanted`, by default one in the current folder. As root, for a worker of
// another user, the folder must be new. It then belongs to that user if the worker's own profiler
// can write the trace, else to root. Errors: usage (not new), not_possible, system.
[[nodiscard]] Result<TraceFolder> make_trace_folder(const std::string& wanted, pid_t worker);

}  // namespace muster
