// SPDX-License-Identifier: Apache-2.0
#include "agent/failures/finding.hpp"

#include "agent/failures/failure_patterns.hpp"
#include "agent/failures/lost_connection.hpp"
#include "agent/failures/report.hpp"
#include "agent/failures/traceback.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <cctype>
#include <csignal>
#include <string_view>
#include <utility>
#include <vector>

namespace muster {
namespace {

using Lines = std::vector<std::string>;

constexpr std::size_t kMessageLinesMax = 24;  // after the frames of the last exception
constexpr std::size_t kLinesWithoutTraceback = 12;
constexpr std::size_t kSignatureLinesMax = 4;  // of a program without tracebacks
constexpr std::size_t kGistBytesMax = 160;

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Replaces hexadecimal addresses by "0x", and with `numbers` each number by "#". Both change from
// run to run.
std::string normalized(std::string_view text, bool numbers) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const bool at_word = i == 0 || !is_word(text[i - 1]);
    if (at_word && text.substr(i).starts_with("0x")) {
      out += "0x";
      for (i += 2; i < text.size() && std::isxdigit(static_cast<unsigned char>(text[i])) != 0;
           ++i) {
      }
    } else if (numbers && std::isdigit(static_cast<unsigned char>(text[i])) != 0) {
      out += '#';
      while (i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])) != 0) {
        ++i;
      }
    } else {
      out += text[i++];
    }
  }
  return out;
}

Lines plain_lines(std::string_view text) {
  Lines lines = lines_with_text(text);
  for (std::string& line : lines) {
    line = std::string(without_rank(line));
  }
  return lines;
}

Lines last_of(Lines lines, std::size_t count) {
  if (lines.size() > count) {
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(count));
  }
  return lines;
}

// "ValueError" for "json.decoder.ValueError: bad batch"; empty if the line is not an exception.
std::string_view type_of(std::string_view line) {
  const auto end = std::ranges::find_if(line, [](char c) { return !is_word(c) && c != '.'; });
  const auto type = line.substr(0, static_cast<std::size_t>(end - line.begin()));
  if (type.empty() || (end != line.end() && *end != ':') || type.ends_with('.')) {
    return {};
  }
  const auto dot = type.rfind('.');
  return dot == std::string_view::npos ? type : type.substr(dot + 1);
}

std::optional<Cause> cause_of_lines(const Lines& lines) {
  const std::string text = to_lower(join(lines, "\n") + "\n");
  const auto cause = cause_of_text(text);
  return !cause && says_lost_connection(text) ? Cause::lost_peer : cause;
}

// The cause that one exception reports. Its type decides, unless the message is more specific.
std::optional<Cause> cause_of_message(const Lines& message) {
  const std::string_view type = type_of(message.front());
  const auto by_type = cause_of_exception(type);
  const auto by_text = cause_of_lines(message);
  const bool is_exact = by_type == Cause::import || by_type == Cause::syntax ||
                        by_type == Cause::host_memory || by_type == Cause::gpu_memory ||
                        by_type == Cause::preemption || by_type == Cause::usage;
  if (is_exact) {
    return by_type;
  }
  // An assertion may say what is wrong; so may an error of the operating system.
  return by_text ? by_text : by_type;
}

// What the worker printed or recorded.
struct Text {
  std::vector<Lines> messages;  // of exceptions
  Lines last;                   // without exceptions: the last lines of stderr
  std::string traceback;
};

Text text_of(const WorkerFailure& failure) {
  Text text;
  text.traceback = traceback_of(failure);
  if (!text.traceback.empty()) {
    text.messages = exception_messages(plain_lines(text.traceback), kMessageLinesMax);
  }
  if (failure.record && !failure.record->message.empty()) {
    if (text.messages.empty()) {
      text.messages.push_back(plain_lines(failure.record->message));
    }
  }
  if (text.messages.empty() || text.messages.back().empty()) {
    text.messages.clear();
    text.last = last_of(plain_lines(failure.stderr_tail), kLinesWithoutTraceback);
  }
  return text;
}

// A handler that runs after the error (`finally`) may lose a connection; the earlier exception of
// the chain is then the cause.
const Lines& decisive_message(const std::vector<Lines>& messages) {
  const auto at = std::ranges::find_if(
      messages, [](const Lines& message) { return cause_of_message(message) != Cause::lost_peer; });
  const bool ends_lost = cause_of_message(messages.back()) == Cause::lost_peer;
  return ends_lost && at != messages.end() ? *at : messages.back();
}

// Lines of these kinds describe an error better than a line that follows them.
bool reports_error(const std::string& line) {
  const std::string lower = to_lower(line);
  return lower.find("error") != std::string::npos || lower.find("fatal") != std::string::npos ||
         lower.find("what():") != std::string::npos || lower.find("assert") != std::string::npos;
}

std::string gist_of(const Lines& lines) {
  const auto at = std::find_if(lines.rbegin(), lines.rend(), reports_error);
  const std::string_view gist = trim(at == lines.rend() ? lines.back() : *at);
  return std::string(gist.size() > kGistBytesMax ? gist.substr(0, kGistBytesMax) : gist);
}

Cause cause_of_status(const WorkerFailure& failure) {
  const int code = failure.status.shell_code();
  if (code == 128 + SIGTERM || code == 128 + SIGINT) {
    return Cause::preemption;
  }
  if (code == kNotExecutableCode || code == kNotFoundCode) {
    return Cause::usage;
  }
  return failure.status.is_own_exit() ? Cause::unknown : Cause::signal;
}

// The innermost frame's line that names a file.
std::string_view innermost_frame(std::string_view traceback) {
  const auto at = traceback.rfind("File \"");
  return at == std::string_view::npos ? std::string_view()
                                      : traceback.substr(at, traceback.find('\n', at) - at);
}

// Texts before a traceback, or in the frames of one, that are more specific than its exception.
Cause refined(Cause cause, const Text& text, const WorkerFailure& failure) {
  if (cause != Cause::bug && cause != Cause::unknown) {
    return cause;
  }
  const Lines last = last_of(plain_lines(failure.stderr_tail), kLinesWithoutTraceback);
  if (names_lost_gpu(to_lower(join(last, "\n")))) {
    return Cause::hardware;
  }
  return checks_arguments(innermost_frame(text.traceback)) ? Cause::usage : cause;
}

void add_text(Finding& finding, const WorkerFailure& failure) {
  const Text text = text_of(failure);
  finding.has_traceback = !text.traceback.empty();
  std::optional<Cause> cause;
  std::string signature = text.traceback;
  if (!text.messages.empty()) {
    const Lines& message = decisive_message(text.messages);
    cause = cause_of_message(message).value_or(Cause::bug);
    finding.gist = std::string(trim(message.front()).substr(0, kGistBytesMax));
    signature += join(message, "\n");
  } else if (!text.last.empty()) {
    cause = cause_of_lines(text.last);
    if (!cause && type_of(trim(text.last.back())).ends_with("Error")) {
      cause = cause_of_exception(type_of(trim(text.last.back()))).value_or(Cause::bug);
    }
    finding.gist = gist_of(text.last);
    signature = join(last_of(text.last, kSignatureLinesMax), "\n");
  }
  finding.cause = refined(cause.value_or(cause_of_status(failure)), text, failure);
  finding.exact = normalized(signature, false);
  finding.similar = normalized(signature, true);
}

}  // namespace

Finding finding_of(const WorkerFailure& failure) {
  Finding finding;
  finding.rank = failure.rank;
  finding.status = failure.status;
  finding.run_time = failure.run_time;
  finding.step = failure.step;
  finding.after_stop = failure.after_stop;
  if (failure.spawn_error) {
    finding.cause = failure.spawn_error->code == Errc::system ? Cause::unknown : Cause::usage;
    finding.gist = failure.spawn_error->message;
    return finding;
  }
  if (failure.hung || failure.preempted) {
    finding.cause = failure.preempted ? Cause::preemption : Cause::unknown;
    return finding;
  }
  add_text(finding, failure);
  if (failure.out_of_memory) {
    finding.cause = Cause::host_memory;
  } else if (failure.lost_connection) {
    finding.cause = Cause::lost_peer;
  }
  return finding;
}

bool is_consequence(const Finding& finding) {
  return finding.cause == Cause::lost_peer || finding.cause == Cause::preemption ||
         is_silent_kill(finding);
}

bool is_startup_error(const Finding& finding) {
  const bool is_in_program = finding.cause == Cause::import || finding.cause == Cause::syntax ||
                             finding.cause == Cause::usage;
  return is_in_program && !finding.step && !finding.status.signaled &&
         finding.run_time <= kStartupTime;
}

bool is_silent_kill(const Finding& finding) {
  return finding.cause == Cause::signal && finding.status.shell_code() == 128 + SIGKILL;
}

}  // namespace muster
