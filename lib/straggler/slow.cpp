// SPDX-License-Identifier: Apache-2.0
#include "straggler/slow.hpp"

#include "base/plural.hpp"
#include "base/printable.hpp"

#include <fmt/core.h>

namespace muster::straggler {
namespace {

std::string span_of(double seconds) {
  if (seconds < 0.1) {
    return fmt::format("{:.{}f} ms", 1000 * seconds, seconds < 0.01 ? 1 : 0);
  }
  return fmt::format("{:.{}f} s", seconds, seconds < 1 ? 2 : 1);
}

std::string name_place(const SlowPlace& place) {
  const std::string node = printable(place.node);
  return place.whole && place.ranks.size() > 1
             ? fmt::format("node '{}' ({})", node, name_ranks(place.ranks))
             : fmt::format("{} on '{}'", name_ranks(place.ranks), node);
}

// Includes the verb. A node is singular, regardless of its number of ranks.
std::string subject(const std::vector<int>& ranks, const std::vector<SlowPlace>& places) {
  const bool is_one = ranks.size() == 1 || (places.size() == 1 && places.front().whole);
  const std::string name = places.empty() ? name_ranks(ranks) : name_some(places, name_place);
  return name + (is_one ? " is" : " are");
}

}  // namespace

std::string describe(const Slow& slow) {
  const std::string who = subject(slow.ranks, slow.places);
  std::string out = fmt::format("{} slow: {} the job {:.0f} % of its time",
                                who,
                                who.ends_with(" is") ? "it costs" : "they cost",
                                100 * slow.share);
  if (slow.step_seconds && slow.lost_seconds) {
    out += fmt::format(
        " ({} of each step of {})", span_of(*slow.lost_seconds), span_of(*slow.step_seconds));
  }
  return out;
}

std::string describe(const Over& over) {
  return subject(over.ranks, over.places) + " no longer slow";
}

}  // namespace muster::straggler
