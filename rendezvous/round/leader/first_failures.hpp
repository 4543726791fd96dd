// SPDX-License-Identifier: Apache-2.0
// FirstFailures: records on which nodes the first failures of recent rounds happened. A node with
// two of them may be broken (replacing.cpp). Part of RoundCore; pure, value-like.
#pragma once

#include "base/time.hpp"
#include "rendezvous/wire/node_messages.hpp"
#include "rendezvous/wire/round_info.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace muster {

// This number of first failures makes a node suspect. One failure proves nothing.
inline constexpr std::size_t kFirstFailuresOfSuspect = 2;

struct FirstFailure {
  NodeId node{};
  int rank = 0;
  std::string cause;  // Failed::node_cause
};

class FirstFailures {
 public:
  // Older failures do not count.
  explicit FirstFailures(Duration window) : window_(window) {}

  // Returns the number of first failures on the node within the window, this one included.
  std::size_t note(TimePoint now, const FirstFailure& failure) {
    std::erase_if(failures_, [&](const Noted& noted) { return !is_recent(now, noted); });
    failures_.push_back({failure, now});
    return count(now, failure.node);
  }

  [[nodiscard]] std::size_t count(TimePoint now, NodeId node) const {
    return count_if(now, [&](const FirstFailure& noted) { return noted.node == node; });
  }

  // True if this rank failed at least kFirstFailuresOfSuspect times on another node with the same
  // cause. Then the failure has moved with the rank, so the node is not its cause.
  [[nodiscard]] bool has_moved(TimePoint now, const FirstFailure& failure) const {
    return std::ranges::any_of(failures_, [&](const Noted& noted) {
      const NodeId other = noted.failure.node;
      return other != failure.node && count_if(now, [&](const FirstFailure& before) {
                                        return before.node == other && is_same(before, failure);
                                      }) >= kFirstFailuresOfSuspect;
    });
  }

 private:
  struct Noted {
    FirstFailure failure;
    TimePoint when{};
  };

  // The first death by a signal has the cause kSignal, and later ones kRepeatedSignal.
  static bool is_same(const FirstFailure& a, const FirstFailure& b) {
    const auto is_signal = [](const FirstFailure& failure) {
      return failure.cause == kRepeatedSignal || failure.cause == kSignal;
    };
    return a.rank == b.rank && (a.cause == b.cause || (is_signal(a) && is_signal(b)));
  }

  template <class Counts>
  [[nodiscard]] std::size_t count_if(TimePoint now, Counts counts) const {
    return static_cast<std::size_t>(std::ranges::count_if(failures_, [&](const Noted& noted) {
      return is_recent(now, noted) && counts(noted.failure);
    }));
  }

  [[nodiscard]] bool is_recent(TimePoint now, const Noted& noted) const {
    return now - noted.when < window_;
  }

  Duration window_;
  std::vector<Noted> failures_;
};

}  // namespace muster
