// SPDX-License-Identifier: Apache-2.0
// ProcessSpec: all data needed to start one worker, as a value created by plan/ and executed by
// process/. Only argv[0] is resolved later, in PATH.
#pragma once

#include "base/cpu_set.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster {

enum class InputKind {
  none,     // the worker's standard input is at end of file
  inherit,  // inherits our standard input
};

enum class OutputKind {
  inherit,  // inherits our descriptor, so nothing is copied
  discard,  // /dev/null
  file,     // writes to `path` directly; with `tee` we follow the file
  capture,  // writes to a pipe; we forward whole lines to our own stream and keep the last lines
  joined,   // for standard error only: shares the pipe of a captured stdout to preserve the order
  keep,     // writes to a pipe; nothing is shown, and we keep the last lines
};

// Placeholder for the worker's pid in a prefix. It is replaced when the worker is spawned, and
// cannot occur in arguments or variables.
inline constexpr std::string_view kPidMark{"\0", 1};

// When equal lines of several workers become one line.
enum class Fold { never, on_terminal, always };

struct OutputPlan {
  OutputKind kind = OutputKind::inherit;
  std::string path = {};  // file: created with its directories, or truncated if it exists
  bool tee = false;       // file: each whole line also goes to our own stream, after `prefix`
  // For tee and capture: printed before each line, with each kPidMark replaced by the pid. May be
  // empty.
  std::string prefix = {};
  Fold fold = Fold::never;  // for lines with a prefix
  int rank = 0;             // with `fold`: the worker's rank, which folded lines show
  // For capture: if the reader of our stream closes its end, the worker's writes fail, as they
  // would if it had inherited the stream.
  bool hangs_up = false;
  bool prompts = false;  // capture: unfinished lines are shown immediately, for prompts
  // With `tee`, lines that contain one of `filters` also go to `filtered_path`, after `prefix`. An
  // empty filter matches every line, and an empty path means no such file.
  std::vector<std::string> filters = {};
  std::string filtered_path = {};

  bool operator==(const OutputPlan&) const = default;
};

struct ProcessSpec {
  int local_rank = 0;
  int rank = 0;
  int replacement = 0;  // this process is the n-th replacement of its worker in this attempt
  std::vector<std::string> argv;         // without a slash, argv[0] is found via the worker's PATH
  std::vector<std::string> environment;  // "NAME=value"
  bool warm = false;  // forked from the zygote if there is one; argv is then python -u …
  CpuSet cpus;        // CPUs that the worker may run on; empty means all CPUs that we may use
  CpuSet memory;      // preferred NUMA nodes for memory; empty if none, or without `cpus`
  InputKind standard_input = InputKind::none;
  OutputPlan standard_output;
  OutputPlan standard_error;

  bool operator==(const ProcessSpec&) const = default;
};

}  // namespace muster
