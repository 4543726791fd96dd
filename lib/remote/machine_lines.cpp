// SPDX-License-Identifier: Apache-2.0
#include "remote/machine_lines.hpp"

#include <algorithm>
#include <array>

namespace muster {
namespace {

// RepeatedMessages needs whole lines, so a partial line that may be a muster message is held back.
bool may_be_message(std::string_view partial) {
  constexpr std::string_view kBegin = "muster: ";
  constexpr std::string_view kContinued = "  ";
  return std::ranges::any_of(std::array{kBegin, kContinued}, [&](std::string_view begin) {
    return begin.starts_with(partial.substr(0, begin.size()));
  });
}

}  // namespace

void MachineLines::break_line(std::string& out) {
  if (unfinished_) {
    out += '\n';
    unfinished_.reset();
  }
}

// Prints text from this stream. First terminates an unfinished line from another stream.
void MachineLines::show(const Key& key, std::string_view text, std::string& out) {
  if (text.empty()) {
    return;
  }
  if (unfinished_ != key) {
    break_line(out);
  }
  unfinished_.reset();
  out += text;
}

void MachineLines::feed(
    TimePoint now, std::size_t host, int stream, std::string_view bytes, std::string& out) {
  const Key key(host, stream);
  LineStyle style;
  style.terminal = terminal_;
  Line& line = lines_.try_emplace(key, Line{LineAssembler(style), false, {}}).first->second;
  const auto last = bytes.rfind('\n');
  const bool ends = last != std::string_view::npos;
  line.is_bar = bytes.substr(ends ? last + 1 : 0).contains('\r') || (line.is_bar && !ends);
  std::string whole;
  line.lines.feed(bytes, whole);
  if (stream == 2) {
    std::string news;
    messages_.take(host, whole, news);
    whole = std::move(news);
  }
  line.lines.progress(whole);
  show(key, whole, out);
  const std::string_view partial = line.lines.partial();
  const bool shows = !partial.empty() && !line.is_bar && !(stream == 2 && may_be_message(partial));
  line.show_at = shows ? std::optional(now + kUnfinishedAfter) : std::nullopt;
}

void MachineLines::finish(std::size_t host, std::string& out) {
  for (const int stream : {1, 2}) {
    const auto found = lines_.find({host, stream});
    if (found == lines_.end()) {
      continue;
    }
    std::string rest;
    found->second.lines.finish(rest);
    show(found->first, rest, out);
    if (unfinished_ == found->first) {
      break_line(out);
    }
    lines_.erase(found);
  }
}

std::optional<TimePoint> MachineLines::next_deadline() const {
  std::optional<TimePoint> next;
  for (const auto& [key, line] : lines_) {
    if (line.show_at) {
      next = std::min(next.value_or(*line.show_at), *line.show_at);
    }
  }
  return next;
}

void MachineLines::tick(TimePoint now, std::string& out) {
  for (auto& [key, line] : lines_) {
    if (line.show_at && *line.show_at <= now) {
      line.show_at.reset();
      show(key, line.lines.partial(), out);
      line.lines.drop_partial();
      unfinished_ = key;
    }
  }
}

}  // namespace muster
