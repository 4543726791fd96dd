// SPDX-License-Identifier: Apache-2.0
#include "base/check.hpp"

#include "base/stream_writer.hpp"

#include <cstdlib>
#include <string>

#include <unistd.h>

namespace muster {
namespace {

// Printing the message must not block an aborting process even if its console is not read.
constexpr Duration kMessageTimeout = std::chrono::milliseconds(200);

}  // namespace

void check_failed(std::string_view condition, std::string_view file, int line) {
  std::string text = "muster: internal error: ";
  text.append(condition).append(" is false at ").append(file);
  text.append(":").append(std::to_string(line)).append("; please report this\n");
  write_within(STDERR_FILENO, text, kMessageTimeout);
  std::abort();
}

}  // namespace muster
