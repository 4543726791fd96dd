// SPDX-License-Identifier: Apache-2.0
#include "base/check.hpp"

#include <cstdlib>
#include <string>

#include <unistd.h>

namespace muster {

void check_failed(std::string_view condition, std::string_view file, int line) {
  std::string text = "muster: internal error: ";
  text.append(condition).append(" does not hold at ").append(file);
  text.append(":").append(std::to_string(line)).append("; please report this\n");
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  std::abort();
}

}  // namespace muster
