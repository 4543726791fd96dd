// SPDX-License-Identifier: Apache-2.0
// ProcessSpec: everything needed to start one worker, as a value created by plan/ and executed by
// process/. Nothing is resolved later except argv[0] in PATH.
#pragma once

#include "base/cpu_set.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster {

enum class InputKind {
  none,     // reads end-of-file
  inherit,  // inherits our standard input
};

enum class OutputKind {
  inherit,  // inherits our descriptor: nothing is copied
  discard,  // /dev/null
  file,     // writes to `path` directly; with `tee` we follow the file
  capture,  // writes to a pipe; we forward whole lines to our own stream and keep the last ones
  joined,   // standard error only: shares the pipe of a captured stdout, in order
  keep,     // writes to a pipe; nothing is shown, and we keep the last lines
};

// Placeholder in a prefix for the worker's pid, replaced when the worker is spawned. Arguments and
// variables cannot contain it.
inline constexpr std::string_view kPidMark{"\0", 1};

struct OutputPlan {
  OutputKind kind = OutputKind::inherit;
  std::string path = {};  // file: created with its directories, truncated
  bool tee = false;       // file: each whole line also goes to our own stream, after `prefix`
  // tee and capture: printed before each line, with each kPidMark replaced by the pid; may be empty
  std::string prefix = {};
  // capture: if the reader of our stream leaves, the worker's writes fail as if it wrote there
  // itself
  bool hangs_up = false;
  bool prompts = false;  // capture: unfinished lines are shown at once for a user to answer
  // Lines that contain one of `filters` also go to `filtered_path`, after `prefix`; an empty filter
  // matches every line. Only with tee; an empty path means no such file.
  std::vector<std::string> filters = {};
  std::string filtered_path = {};

  bool operator==(const OutputPlan&) const = default;
};

struct ProcessSpec {
  int local_rank = 0;
  int rank = 0;
  std::vector<std::string> argv;         // argv[0] without a slash is searched in the worker's PATH
  std::vector<std::string> environment;  // "NAME=value"
  bool warm = false;  // forked from the zygote if there is one; argv is then python -u …
  CpuSet cpus;        // the CPUs it may run on; empty: all that we may use
  CpuSet memory;      // preferred NUMA nodes for memory; empty: none. Empty without `cpus`
  InputKind standard_input = InputKind::none;
  OutputPlan standard_output;
  OutputPlan standard_error;

  bool operator==(const ProcessSpec&) const = default;
};

}  // namespace muster
