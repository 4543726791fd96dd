// SPDX-License-Identifier: Apache-2.0
#include "status/failure_event.hpp"

#include <algorithm>
#include <utility>

namespace muster {
namespace {

std::string cause_of(const Json& json) {
  if (field(json, "started").is_boolean() && !flag_of(json, "started")) {
    return "not_started";
  }
  if (flag_of(json, "out_of_memory")) {
    return "out_of_memory";
  }
  return field(json, "signal").is_string() ? "signal" : "exit_code";
}

std::string what_failed(const Json& json) {
  const std::string message = text_of(json, "message");
  return text_of(json, "end") + (message.empty() ? "" : ": " + message);
}

// The last line of the traceback or of the output says why a program failed.
std::string last_line_of(const Json& json) {
  if (!text_of(json, "message").empty()) {
    return "";
  }
  const std::string traceback = text_of(json, "traceback");
  const std::string text = traceback.empty() ? text_of(json, "stderr_tail") : traceback;
  const auto end = text.find_last_not_of(" \t\r\n");
  if (end == std::string::npos) {
    return "";
  }
  const auto before = text.rfind('\n', end);
  const auto begin = before == std::string::npos ? 0 : before + 1;
  return text.substr(begin, std::min(end + 1 - begin, kLastLineBytesMax));
}

}  // namespace

FailureStatus failure_of(const Json& json, double time, std::string node) {
  FailureStatus out;
  out.time = time;
  out.node = std::move(node);
  out.rank = small_of(json, "rank");
  out.cause = cause_of(json);
  out.text = what_failed(json);
  out.last_line = last_line_of(json);
  return out;
}

}  // namespace muster
