// SPDX-License-Identifier: Apache-2.0
// Scheduler: virtual time. A heap of (time, sequence). The sequence number breaks ties, so the
// order never depends on the heap. Resource of one simulated world.
#pragma once

#include "base/time.hpp"

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace muster::sim {

class Scheduler {
 public:
  [[nodiscard]] TimePoint now() const { return now_; }

  void at(TimePoint when, std::function<void()> what) {
    heap_.push(Entry{when < now_ ? now_ : when, sequence_++, std::move(what)});
  }

  void after(Duration delay, std::function<void()> what) { at(now_ + delay, std::move(what)); }

  // Advances time to the next entry and runs it. False if no entry is left.
  bool run_next() {
    if (heap_.empty()) {
      return false;
    }
    Entry entry = heap_.top();
    heap_.pop();
    now_ = entry.when;
    entry.what();
    return true;
  }

 private:
  struct Entry {
    TimePoint when;
    std::uint64_t sequence;
    std::function<void()> what;

    bool operator<(const Entry& other) const {  // the heap's top is the maximum, so the earliest
                                                // entry must compare greatest
      return when != other.when ? when > other.when : sequence > other.sequence;
    }
  };

  TimePoint now_{};
  std::uint64_t sequence_ = 0;
  std::priority_queue<Entry> heap_;
};

}  // namespace muster::sim
