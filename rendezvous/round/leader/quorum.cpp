// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/round/leader/quorum.hpp"

#include <algorithm>
#include <functional>

namespace muster {

bool is_quorum(const std::vector<Standing>& members) {
  const auto count = [&](Standing which) { return std::ranges::count(members, which); };
  // A member that has been running since the round started cannot have been proven dead. With one
  // such member here, no other nodes can have found all of us dead and continued. Heirs alone
  // cannot exclude that.
  const auto lasting = count(Standing::here);
  const auto present = lasting + count(Standing::heir);
  const auto all = std::ssize(members);
  if (present == all || lasting == 0) {
    return present == all;
  }
  // If no member is missing, the absent ones are dead, so there is no other side. Otherwise a
  // majority decides. In a tie, only one side can have the first member.
  const bool has_first = members.front() == Standing::here || members.front() == Standing::heir;
  return count(Standing::missing) == 0 || 2 * present > all || (2 * present == all && has_first);
}

std::optional<TimePoint> quorum_time(const std::vector<MemberEvidence>& members) {
  std::vector<TimePoint> heard;
  // The latest time at which a member that is not an heir is known to have followed us.
  std::optional<TimePoint> lasting;
  bool all_heard = true;
  for (const MemberEvidence& member : members) {
    if (member.heard && !member.gone) {
      heard.push_back(*member.heard);
      lasting = member.heir ? lasting : std::max(lasting, member.heard);
    }
    all_heard = all_heard && (member.gone || member.heard);
  }
  // After this sort, heard[k - 1] is the latest time for which k members are known to have followed
  // us then or later.
  std::ranges::sort(heard, std::greater());
  std::optional<TimePoint> best;
  const auto improve = [&best](TimePoint when) { best = best ? std::max(*best, when) : when; };
  const std::size_t half = members.size() / 2;
  // A majority counts no later than `lasting`, because heirs alone are not a quorum.
  if (heard.size() > half && lasting) {
    improve(std::min(heard[half], *lasting));
  }
  const bool is_even = members.size() % 2 == 0 && half > 0;
  if (lasting && is_even && heard.size() >= half && members.front().heard &&
      !members.front().gone) {
    improve(std::min({heard[half - 1], *members.front().heard, *lasting}));
  }
  // There is no round yet, or the user has declared all of its members dead.
  if (members.empty()) {
    improve(TimePoint::max());
  } else if (all_heard && (lasting || heard.size() == members.size())) {
    improve(heard.back());
  }
  return best;
}

}  // namespace muster
