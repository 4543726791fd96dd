// SPDX-License-Identifier: Apache-2.0
// ProcessSpec: everything needed to start one worker, as a value made by plan/ and carried out by
// process/. Nothing in here is looked up or resolved later, but argv[0] in PATH.
#pragma once

#include "base/cpu_set.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster {

enum class InputKind {
  none,     // reads end-of-file
  inherit,  // gets our own standard input
};

enum class OutputKind {
  inherit,  // writes to our own descriptor: nothing is copied
  discard,  // /dev/null
  file,     // writes to `path` itself; we follow the file where `tee` asks for it
  capture,  // writes to a pipe; we pass whole lines on to our own stream and keep the last ones
  joined,   // standard error only: the pipe of a captured standard output, in the worker's order
  keep,     // writes to a pipe; nothing is shown, and we keep the last lines
};

// Stands for the worker's process id in a prefix until the worker is spawned. No argument and no
// variable can contain it.
inline constexpr std::string_view kPidMark{"\0", 1};

struct OutputPlan {
  OutputKind kind = OutputKind::inherit;
  std::string path = {};  // file: created with its folders, truncated
  bool tee = false;       // file: each whole line also goes to our own stream, behind `prefix`
  // tee and capture: put before each line, with the pid for each kPidMark; may be empty
  std::string prefix = {};
  // capture: a reader of our stream that leaves is felt by the worker, as if it wrote there itself
  bool hangs_up = false;
  bool prompts = false;  // capture: unfinished lines are shown at once, since a person answers them
  // Lines that contain one of `filters` also go to `filtered_path`, behind `prefix`; an empty
  // filter matches every line. Used with tee only; empty path: no such file.
  std::vector<std::string> filters = {};
  std::string filtered_path = {};

  bool operator==(const OutputPlan&) const = default;
};

struct ProcessSpec {
  int local_rank = 0;
  int rank = 0;
  std::vector<std::string> argv;         // argv[0] without a slash is searched in the worker's PATH
  std::vector<std::string> environment;  // "NAME=value"
  bool warm = false;  // forked from the zygote where there is one; argv is then python -u …
  CpuSet cpus;        // it runs on no others; empty: on all that we may use
  CpuSet memory;      // NUMA nodes whose memory it prefers; empty: no wish. Without `cpus`: empty
  InputKind standard_input = InputKind::none;
  OutputPlan standard_output;
  OutputPlan standard_error;

  bool operator==(const ProcessSpec&) const = default;
};

}  // namespace muster
