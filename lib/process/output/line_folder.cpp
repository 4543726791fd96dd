// SPDX-License-Identifier: Apache-2.0
#include "process/output/line_folder.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <utility>

namespace muster {
namespace {

// The number of held lines with the same hash that are checked for a new line.
constexpr int kChecksMax = 32;

// The memory of this number of lines is used again, except for long ones.
constexpr std::size_t kSpareLinesMax = 1024;
constexpr std::size_t kSpareBytesMax = 256;

// "0-3,5": the ranks in ascending order, as in the kernel's lists of CPUs.
std::string describe_ranges(const std::vector<int>& ranks) {
  std::string out;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) {
      ++last;
    }
    out.append(out.empty() ? "" : ",").append(std::to_string(ranks[i]));
    if (last > i) {
      out.append("-").append(std::to_string(ranks[last]));
    }
    i = last + 1;
  }
  return out;
}

}  // namespace

void LineFolder::open(int local_rank, int rank, std::string label) {
  MUSTER_CHECK(local_rank >= 0);
  const auto index = static_cast<std::size_t>(local_rank);
  writers_.resize(std::max(writers_.size(), index + 1));
  Writer& writer = writers_[index];
  writer.rank = rank;
  writer.label = std::move(label);
  open_writers_ += writer.streams++ == 0 ? 1U : 0U;
}

void LineFolder::close(int local_rank) {
  Writer& writer = writers_.at(static_cast<std::size_t>(local_rank));
  MUSTER_CHECK(writer.streams > 0);
  open_writers_ -= --writer.streams == 0 ? 1U : 0U;
}

void LineFolder::add(int local_rank, std::string_view line, TimePoint now, std::string& out) {
  if (line.size() > kFoldedLineBytesMax) {
    pass(local_rank, line, true, out);
    out.push_back('\n');
    return;
  }
  if (!join_any(local_rank, line)) {
    hold(local_rank, now);
    while (held_.size() > kHeldLinesMax || held_bytes_ > kHeldBytesMax) {
      emit_first(out);
    }
  }
}

void LineFolder::pass(int local_rank, std::string_view text, bool labelled, std::string& out) {
  const Writer& writer = writers_.at(static_cast<std::size_t>(local_rank));
  while (!held_.empty() && first_ < writer.next) {
    emit_first(out);
  }
  out.append(labelled ? std::string_view(writer.label) : "").append(text);
}

bool LineFolder::join(std::uint64_t number, int local_rank, std::string_view line) {
  Held& found = held(number);
  if (!found.line.join(line)) {
    return false;
  }
  found.writers.push_back(local_rank);
  writers_[static_cast<std::size_t>(local_rank)].next = number + 1;
  return true;
}

// The worker's lines stay in order, because each joins a line after the one that it joined last. If
// the workers print the same lines, this is the next one. If no line matches, `fresh_` contains the
// new one.
bool LineFolder::join_any(int local_rank, std::string_view line) {
  const auto from = std::max(writers_.at(static_cast<std::size_t>(local_rank)).next, first_);
  if (from < end() && join(from, local_rank, line)) {
    return true;
  }
  fresh_.line.start(line);
  const auto number = from < end() ? find(from, fresh_.line.hash()) : end();
  return number < end() && join(number, local_rank, line);
}

// The first line with this hash, among those that were held last; end() if there is none.
std::uint64_t LineFolder::find(std::uint64_t from, std::size_t hash) {
  std::uint64_t found = end();
  std::uint64_t number = slots_[hash % kSlots];
  for (int checks = 0; number >= from && checks < kChecksMax; ++checks) {
    found = held(number).line.hash() == hash ? number : found;
    number = held(number).previous;
  }
  return found;
}

void LineFolder::hold(int local_rank, TimePoint now) {
  const auto number = end();
  fresh_.writers.assign(1, local_rank);
  fresh_.since = now;
  fresh_.previous = std::exchange(slots_[fresh_.line.hash() % kSlots], number);
  held_bytes_ += fresh_.line.size();
  held_.push_back(std::move(fresh_));
  writers_[static_cast<std::size_t>(local_rank)].next = number + 1;
  if (spare_.empty()) {
    fresh_ = {};
  } else {
    fresh_ = std::move(spare_.back());
    spare_.pop_back();
  }
}

void LineFolder::emit_due(TimePoint now, std::string& out) {
  while (!held_.empty() && (held_.front().writers.size() >= open_writers_ ||
                            held_.front().since + kFoldTime <= now)) {
    emit_first(out);
  }
}

void LineFolder::emit_all(std::string& out) {
  while (!held_.empty()) {
    emit_first(out);
  }
}

void LineFolder::emit_first(std::string& out) {
  Held& line = held_.front();
  append_label(line, out);
  line.line.append_to(out);
  out.push_back('\n');
  held_bytes_ -= line.line.size();
  if (spare_.size() < kSpareLinesMax && line.line.size() <= kSpareBytesMax) {
    spare_.push_back(std::move(line));
  }
  held_.pop_front();
  ++first_;
}

void LineFolder::append_label(const Held& line, std::string& out) {
  if (line.writers.size() == 1) {
    out.append(writers_[static_cast<std::size_t>(line.writers.front())].label);
    return;
  }
  std::vector<int> ranks;
  ranks.reserve(line.writers.size());
  for (const int local_rank : line.writers) {
    ranks.push_back(writers_[static_cast<std::size_t>(local_rank)].rank);
  }
  std::ranges::sort(ranks);
  out.append(colours_ ? "\x1b[1m[ranks " : "[ranks ").append(describe_ranges(ranks));
  out.append(colours_ ? "]\x1b[0m " : "] ");
}

}  // namespace muster
