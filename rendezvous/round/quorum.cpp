// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/round/quorum.hpp"

#include <algorithm>
#include <functional>

namespace muster {

bool is_quorum(const std::vector<Standing>& members) {
  const auto here = std::ranges::count(members, Standing::here);
  const auto missing = std::ranges::count(members, Standing::missing);
  const auto all = std::ssize(members);
  return missing == 0 || 2 * here > all || (2 * here == all && members.front() == Standing::here);
}

std::optional<TimePoint> quorum_time(const std::vector<MemberEvidence>& members) {
  std::vector<TimePoint> heard;
  bool all_heard = true;
  for (const MemberEvidence& member : members) {
    if (member.heard && !member.gone) {
      heard.push_back(*member.heard);
    }
    all_heard = all_heard && (member.gone || member.heard);
  }
  std::ranges::sort(heard, std::greater());
  std::optional<TimePoint> best;
  const auto improve = [&best](TimePoint when) { best = best ? std::max(*best, when) : when; };
  const std::size_t half = members.size() / 2;
  if (heard.size() > half) {
    improve(heard[half]);
  }
  if (members.size() % 2 == 0 && half > 0 && heard.size() >= half && members.front().heard &&
      !members.front().gone) {
    improve(std::min(heard[half - 1], *members.front().heard));
  }
  if (all_heard) {
    improve(heard.empty() ? TimePoint::max() : heard.back());
  }
  return best;
}

}  // namespace muster
