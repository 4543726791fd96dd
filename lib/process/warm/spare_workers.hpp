// SPDX-License-Identifier: Apache-2.0
// SpareWorkers: the spare workers that LinuxRunner keeps (--spare-workers), as its caller describes
// them. Value.
#pragma once

#include "base/error.hpp"
#include "base/log_level.hpp"
#include "process/values/process_spec.hpp"

#include <functional>
#include <string>

namespace muster {

struct SpareWorkers {
  int count = 0;
  // The spare worker with this number. Its local_rank identifies its streams.
  std::function<Result<ProcessSpec>(int number)> spec;
  std::function<void(LogLevel level, const std::string& text)> say;
};

}  // namespace muster
