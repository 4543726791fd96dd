// SPDX-License-Identifier: Apache-2.0
#include "process/values/exit_status.hpp"

#include "base/check.hpp"

#include <fmt/core.h>

#include <cctype>
#include <charconv>
#include <csignal>
#include <cstring>
#include <string_view>

namespace muster {
namespace {

constexpr int kShellSignalFirst = 129;  // 128 + SIGHUP
constexpr int kShellSignalLast = 192;   // 128 + SIGRTMAX

// A description of the signal for the user; empty if its name is clear enough.
std::string meaning(int signo) {
  if (signo == SIGKILL || signo == SIGTERM) {
    return {};
  }
  const char* known = ::sigdescr_np(signo);
  std::string text = known == nullptr ? "" : known;
  if (text.size() > 1 && std::islower(static_cast<unsigned char>(text[1])) != 0) {
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  }
  return text;
}

// "RTMIN", "RTMIN+3", "RTMAX-1" as a number; 0 for anything else.
int real_time_number(std::string_view name) {
  const bool from_min = name.starts_with("RTMIN");
  if (!from_min && !name.starts_with("RTMAX")) {
    return 0;
  }
  name.remove_prefix(5);
  const int base = from_min ? SIGRTMIN : SIGRTMAX;
  if (name.empty()) {
    return base;
  }
  int offset = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + 1, end, offset);
  if (name[0] != (from_min ? '+' : '-') || error != std::errc{} || stop != end || offset < 0) {
    return 0;
  }
  const int signo = from_min ? base + offset : base - offset;
  return signo >= SIGRTMIN && signo <= SIGRTMAX ? signo : 0;
}

}  // namespace

ExitStatus ExitStatus::from_wait(int code, int status) {
  const bool exited = code == CLD_EXITED && status >= 0 && status <= 255;
  const bool killed = (code == CLD_KILLED || code == CLD_DUMPED) && status > 0 && status < NSIG;
  MUSTER_CHECK(exited || killed);
  return {.signaled = code != CLD_EXITED, .value = status, .core_dumped = code == CLD_DUMPED};
}

bool ExitStatus::is_own_exit() const {
  return !signaled && value != 0 && (value < kShellSignalFirst || value > kShellSignalLast);
}

std::string ExitStatus::describe() const {
  if (!signaled) {
    return fmt::format("exited with code {}", value);
  }
  std::string details = meaning(value);
  if (core_dumped) {
    details += details.empty() ? "core dumped" : ", core dumped";
  }
  return "killed by " + signal_name(value) + (details.empty() ? "" : " (" + details + ")");
}

std::string signal_name(int signo) {
  if (const char* name = ::sigabbrev_np(signo); name != nullptr) {
    return std::string("SIG") + name;
  }
  if (signo >= SIGRTMIN && signo <= SIGRTMAX) {
    const int offset = signo - SIGRTMIN;
    return offset == 0 ? "SIGRTMIN" : fmt::format("SIGRTMIN+{}", offset);
  }
  return fmt::format("signal {}", signo);
}

int signal_number(const std::string& name) {
  std::string upper;
  for (const char c : name) {
    upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  std::string_view word = upper;
  if (word.starts_with("SIG")) {
    word.remove_prefix(3);
  }
  for (int signo = 1; signo < SIGRTMIN; ++signo) {
    const char* known = ::sigabbrev_np(signo);
    if (known != nullptr && word == known) {
      return signo;
    }
  }
  if (word == "CLD") {
    return SIGCHLD;
  }
  return word == "IOT" ? SIGABRT : real_time_number(word);
}

}  // namespace muster
