// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/sorted_names.hpp"

#include <algorithm>
#include <functional>

namespace muster {

void SortedNames::add(std::string_view name) {
  const auto is_full = [name](const Run& run) {
    return run.names.size() == kRunNames || run.text.size() + name.size() > run.text.capacity();
  };
  if (runs_.empty() || is_full(runs_.back())) {
    runs_.emplace_back().text.reserve(std::max(kRunBytes, name.size()));
  }
  Run& run = runs_.back();
  const std::size_t at = run.text.size();
  run.text.append(name);
  run.names.push_back(std::string_view(run.text).substr(at));
  ++count_;
  bytes_ += name.size();
}

bool SortedNames::sort(TurnBudget& budget) {
  for (; sorted_ < runs_.size() && !budget.used_up(); ++sorted_) {
    Run& run = runs_[sorted_];
    // Descending, so that the smallest name can be removed from the end.
    std::ranges::sort(run.names, std::greater{});
    budget.spend(run.names.size());
    merge_.push_back(&run);
    std::ranges::push_heap(merge_, is_later);
  }
  return sorted_ == runs_.size();
}

void SortedNames::pop() {
  std::ranges::pop_heap(merge_, is_later);
  Run& run = *merge_.back();
  run.names.pop_back();
  if (run.names.empty()) {
    run = Run{};
    merge_.pop_back();
  } else {
    std::ranges::push_heap(merge_, is_later);
  }
}

}  // namespace muster
