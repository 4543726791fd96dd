// SPDX-License-Identifier: Apache-2.0
#include "nccl/fakes/cuda/ptx_uses.hpp"

#include <algorithm>

namespace muster::fake {
namespace {

void extend(std::vector<Span>& spans, const ThreadUse& use) {
  if (!spans.empty() && use.begin <= spans.back().end) {
    spans.back().end = std::max<std::uintptr_t>(spans.back().end, use.end());
  } else {
    spans.push_back({use.begin, use.end(), use.write});
  }
}

// Among the uses so far, by address: the one that extends furthest, and the furthest from any other
// thread.
class Furthest {
 public:
  void add(const ThreadUse& use) {
    if (use.thread == first_.thread || first_.bytes == 0) {
      first_ = use.end() > first_.end() ? use : first_;
    } else if (use.end() > first_.end()) {
      second_ = first_;
      first_ = use;
    } else if (use.end() > second_.end()) {
      second_ = use;
    }
  }

  // Null if no other thread's use overlaps this one.
  [[nodiscard]] const ThreadUse* other(const ThreadUse& use) const {
    const ThreadUse& found = first_.thread == use.thread ? second_ : first_;
    return found.bytes > 0 && found.end() > use.begin ? &found : nullptr;
  }

 private:
  ThreadUse first_;
  ThreadUse second_;
};

std::string race(const ThreadUse& a, const ThreadUse& b) {
  return "thread " + std::to_string(a.thread) + (a.write ? " writes" : " reads") + " (line " +
         std::to_string(a.line) + ") what thread " + std::to_string(b.thread) +
         (b.write ? " writes" : " reads") + " (line " + std::to_string(b.line) +
         "), and nothing orders the two";
}

bool within(const std::vector<Span>& spans, const ThreadUse& use) {
  const auto after = std::ranges::upper_bound(spans, use.begin, {}, &Span::begin);
  return after != spans.begin() && use.end() <= std::prev(after)->end;
}

}  // namespace

bool Uses::allow(const ThreadUse& use) const {
  return within(use.write ? writes : reads, use);
}

std::expected<Uses, std::string> gather(std::vector<ThreadUse> uses) {
  std::ranges::sort(uses, {}, &ThreadUse::begin);
  Uses gathered;
  Furthest reads;
  Furthest writes;
  for (const ThreadUse& use : uses) {
    const ThreadUse* other = writes.other(use);
    if (other == nullptr && use.write) {
      other = reads.other(use);
    }
    if (other != nullptr) {
      return std::unexpected(race(use, *other));
    }
    extend(use.write ? gathered.writes : gathered.reads, use);
    (use.write ? writes : reads).add(use);
  }
  return gathered;
}

}  // namespace muster::fake
