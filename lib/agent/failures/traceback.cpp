// SPDX-License-Identifier: Apache-2.0
#include "agent/failures/traceback.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <array>

namespace muster {
namespace {

using Lines = std::vector<std::string>;

// The lines that Python prints between two exceptions of a chain.
constexpr std::array<std::string_view, 2> kLinks{
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:"};

// The minimum number of lines for the last exception of a chain: its first line, "  ...", a line of
// code and the message.
constexpr std::size_t kLastExceptionLinesMin = 4;

bool is_frame(std::string_view line) {
  return line.empty() || line.front() == ' ' || line.front() == '\t';
}

bool starts_traceback(std::string_view line) {
  return line.find(kTracebackStart) != std::string_view::npos;
}

// True if the text between two tracebacks ends with a line that links them into a chain.
bool ends_with_link(std::string_view between) {
  const Lines lines = split(between, '\n');
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    const std::string_view text = trim(without_rank(*line));
    if (!text.empty()) {
      return std::ranges::find(kLinks, text) != kLinks.end();
    }
  }
  return false;
}

Lines last_lines(const Lines& lines, std::size_t count) {
  if (lines.size() <= count) {
    return lines;
  }
  const bool is_traceback = starts_traceback(lines.front());
  const std::size_t head = is_traceback && count > 3 ? 2 : 0;
  Lines out;
  if (head > 0) {
    out.push_back(lines.front());
    out.emplace_back("  ...");
  }
  out.insert(out.end(), lines.end() - static_cast<std::ptrdiff_t>(count - head), lines.end());
  return out;
}

// Keeps the first message, because it is the cause, and the last few messages.
void leave_out_middle(Lines& messages, std::size_t most) {
  if (messages.size() > most) {
    messages.erase(messages.begin() + (most > 0 ? 1 : 0),
                   messages.end() - static_cast<std::ptrdiff_t>(most > 0 ? most - 1 : 0));
  }
}

}  // namespace

std::string_view without_rank(std::string_view line) {
  if (line.starts_with("[rank")) {
    const auto end = line.find("]: ");
    if (end != std::string_view::npos) {
      line.remove_prefix(end + 3);
    }
  }
  return line;
}

std::size_t message_line(const Lines& lines, std::size_t at) {
  while (at < lines.size() && is_frame(without_rank(lines[at]))) {
    ++at;
  }
  return at;
}

std::vector<std::string> lines_with_text(std::string_view text) {
  std::vector<std::string> lines = split(text, '\n');
  std::erase_if(lines, [](const std::string& line) { return trim(line).empty(); });
  return lines;
}

std::vector<std::vector<std::string>> exception_messages(const std::vector<std::string>& lines,
                                                         std::size_t lines_max) {
  std::vector<std::vector<std::string>> messages;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].find(kTracebackStart) == std::string::npos) {
      continue;
    }
    auto& message = messages.emplace_back();
    for (std::size_t at = message_line(lines, i + 1);
         at < lines.size() && message.size() < lines_max;
         ++at) {
      const std::string_view line = without_rank(lines[at]);
      if (line.empty() || line.find(kTracebackStart) != std::string_view::npos) {
        break;
      }
      message.emplace_back(line);
    }
  }
  return messages;
}

std::string last_chain(std::string_view text) {
  auto start = text.rfind(kTracebackStart);
  if (start == std::string_view::npos) {
    return {};
  }
  while (start > 0) {
    const auto before = text.rfind(kTracebackStart, start - 1);
    if (before == std::string_view::npos || !ends_with_link(text.substr(before, start - before))) {
      break;
    }
    start = before;
  }
  return std::string(text.substr(start));
}

Lines shorten(const Lines& lines, std::size_t count) {
  if (lines.size() <= count) {
    return lines;
  }
  Lines messages;
  std::size_t last = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!starts_traceback(lines[i])) {
      continue;
    }
    if (const std::size_t at = message_line(lines, last + 1); i > last && at < i) {
      messages.push_back(lines[at]);
    }
    last = i;
  }
  if (last == 0 || !starts_traceback(lines.front())) {
    return last_lines(lines, count);
  }
  leave_out_middle(messages, count - std::min(count, kLastExceptionLinesMin));
  const Lines end(lines.begin() + static_cast<std::ptrdiff_t>(last), lines.end());
  const Lines shown = last_lines(end, count - messages.size());
  messages.insert(messages.end(), shown.begin(), shown.end());
  return messages;
}

}  // namespace muster
