// SPDX-License-Identifier: Apache-2.0
// KernelLog: the lines that the kernel logs from now on. They contain errors of GPUs and memory,
// and which process was killed to free memory. Often only root may read them; containers usually
// have no kernel log.
#pragma once

#include "base/fd.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace muster {

// A call of read_new() reads at most this number of lines, so that a device that logs without end
// cannot stop the caller.
inline constexpr std::size_t kKernelLinesMax = 1000;

class KernelLog {
 public:
  // Opens /dev/kmsg and skips older lines. If it cannot be read, there are no lines.
  KernelLog();

  // For tests. Each read of this file returns one record, as /dev/kmsg does (the kernel's
  // Documentation/ABI/testing/dev-kmsg), and never blocks.
  explicit KernelLog(UniqueFd records) : records_(std::move(records)) {}

  // The messages since the last call, without their prefix.
  [[nodiscard]] std::vector<std::string> read_new();

 private:
  UniqueFd records_;
};

}  // namespace muster
