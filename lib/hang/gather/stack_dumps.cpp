// SPDX-License-Identifier: Apache-2.0
#include "hang/gather/stack_dumps.hpp"

#include "base/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace muster::hang {
namespace {

using DumpJson = nlohmann::json;

constexpr std::size_t kNameMax = 200;

std::string text_at(const DumpJson& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) {
    return "";
  }
  return found->get_ref<const std::string&>().substr(0, kNameMax);
}

// py-spy writes null for values that it cannot determine, such as a thread's id.
int number_at(const DumpJson& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) {
    return 0;
  }
  const auto number = found->get<std::int64_t>();
  return number < 0 || number > INT32_MAX ? 0 : static_cast<int>(number);
}

bool flag_at(const DumpJson& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

Stack python_stack(const DumpJson& thread) {
  Stack out;
  out.python = true;
  out.tid = number_at(thread, "os_thread_id");
  out.name = text_at(thread, "thread_name");
  out.holds_gil = flag_at(thread, "owns_gil");
  const auto frames = thread.find("frames");
  if (frames == thread.end() || !frames->is_array()) {
    return out;
  }
  for (const DumpJson& frame : *frames) {
    if (frame.is_object() && out.frames.size() < kFramesMax) {
      out.frames.push_back(
          {text_at(frame, "name"), text_at(frame, "filename"), number_at(frame, "line")});
    }
  }
  return out;
}

// Parses "#0  0x00007f988b6e3f16 __futex_abstimed_wait_common". The name may be missing.
Frame native_frame(std::string_view line) {
  const auto address = line.find("0x");
  const auto blank = address == std::string_view::npos ? address : line.find(' ', address);
  if (blank == std::string_view::npos) {
    return {};
  }
  std::string_view name = trim(line.substr(blank));
  if (name.starts_with("- 1 ")) {  // a return address
    name.remove_prefix(4);
  }
  return {std::string(trim(name).substr(0, kNameMax)), "", 0};
}

}  // namespace

std::vector<Stack> parse_py_spy(std::string_view text) {
  // Without exceptions, invalid text becomes a discarded value, which is not an array.
  const DumpJson dump = DumpJson::parse(text, nullptr, false);
  std::vector<Stack> out;
  if (!dump.is_array()) {
    return out;
  }
  for (const DumpJson& thread : dump) {
    if (thread.is_object() && out.size() < kThreadsMax) {
      out.push_back(python_stack(thread));
    }
  }
  return out;
}

// Accepts partial output, because eu-stack may have been killed at its time limit.
std::vector<Stack> parse_eu_stack(std::string_view text) {
  std::vector<Stack> out;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with("TID ")) {
      const auto tid = parse_int(line.substr(4, line.find(':') - 4));
      // The following frames would be added to the previous thread, so stop here.
      if (out.size() == kThreadsMax || !tid || *tid < 0 || *tid > INT32_MAX) {
        break;
      }
      out.push_back({.tid = static_cast<pid_t>(*tid)});
    } else if (line.starts_with("#") && !out.empty() && out.back().frames.size() < kFramesMax) {
      out.back().frames.push_back(native_frame(line));
    }
  }
  return out;
}

}  // namespace muster::hang
