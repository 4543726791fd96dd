// SPDX-License-Identifier: Apache-2.0
// SortedNames: the names of keys in ascending order, collected, sorted and taken in several turns.
// The names are stored in runs. Each run is sorted separately, and the sorted runs are merged. Used
// by StoreCore for LIST_KEYS. Value.
#pragma once

#include "rendezvous/store/turn_budget.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

class SortedNames {
 public:
  // Stores a copy. Call before sort().
  void add(std::string_view name);

  // Sorts until the budget is used up. Returns whether all names are sorted.
  [[nodiscard]] bool sort(TurnBudget& budget);

  // The number of names that were added.
  [[nodiscard]] std::uint64_t count() const { return count_; }

  // The total size of the names that were added.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  // The smallest name that has not been taken yet. The names must be sorted.
  [[nodiscard]] bool empty() const { return merge_.empty(); }

  [[nodiscard]] std::string_view front() const { return merge_.front()->names.back(); }

  void pop();

 private:
  // Small enough to sort in one turn.
  static constexpr std::size_t kRunNames = 1024;
  static constexpr std::size_t kRunBytes = 64UL * 1024;

  struct Run {
    std::string text;                     // never grows beyond its capacity
    std::vector<std::string_view> names;  // views into `text`; in descending order once sorted
  };

  [[nodiscard]] static bool is_later(const Run* one, const Run* other) {
    return one->names.back() > other->names.back();
  }

  std::vector<Run> runs_;
  std::size_t sorted_ = 0;   // the number of sorted runs
  std::vector<Run*> merge_;  // a heap of the runs with names; smallest name first
  std::uint64_t count_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace muster
