// SPDX-License-Identifier: Apache-2.0
#include "sim/nodes/trace.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <iterator>

namespace muster::sim {

void Trace::line(VirtualTime now, std::string_view node, char letter, std::string_view what) const {
  const double seconds = std::chrono::duration<double>(now.time_since_epoch()).count();
  const std::string line = fmt::format("{:12.6f} {:<8} {} {}\n", seconds, node, letter, what);
  if (text != nullptr) {
    *text += line;
  } else {
    std::fputs(line.c_str(), stdout);
  }
}

}  // namespace muster::sim
