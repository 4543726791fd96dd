// SPDX-License-Identifier: Apache-2.0
#include "hang/judge/judge.hpp"

#include "hang/judge/collective_places.hpp"
#include "hang/judge/own_cause.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace muster::hang {
namespace {

struct Suspect {
  int rank = 0;
  const RankEvidence* evidence = nullptr;
  OwnCause own;
  bool waits = false;  // the rank waits in a collective operation
  std::vector<int> waits_for{};
};

using Suspects = std::vector<Suspect>;

// True for a cause that does not depend on other ranks.
bool is_definite(Cause cause) {
  return cause == Cause::stopped || cause == Cause::blocked_io;
}

// True if a thread with this cause might be waiting for a collective operation. With async_op an
// operation may be pending while its rank does something else. A thread that sleeps, reads a file
// or computes therefore does not count as waiting for it.
bool may_be_wait(const OwnCause& own) {
  switch (own.cause) {
    case Cause::unknown:
    case Cause::deadlocked:
    case Cause::waits_for_thread:
    case Cause::waits_for_socket:
    case Cause::waits_for_rank:
      return true;
    case Cause::spinning:
      // A wait may spin, too. A known stack outside CUDA's synchronization shows that the thread
      // computes instead.
      return own.stack.empty() || own.on_gpu;
    default:
      return false;
  }
}

// True if a flight recorder reports the operation in which the rank waits.
bool is_recorded(const Suspect& one) {
  return std::ranges::any_of(one.evidence->positions,
                             [](const Position& at) { return !at.pending.empty(); });
}

Suspects look_at(const Evidence& evidence) {
  Suspects out;
  for (const RankEvidence& rank : evidence.ranks) {
    // In a multi-node job each node has judged its own ranks, because nodes do not exchange process
    // data.
    Suspect one{rank.rank, &rank, rank.own ? *rank.own : own_cause(rank)};
    // A stack shows the wait itself. A recorder only shows a pending operation, so the state of the
    // thread must agree with it.
    one.waits = !one.own.collective.empty() || (is_recorded(one) && may_be_wait(one.own));
    out.push_back(std::move(one));
  }
  return out;
}

const Suspect* find(const Suspects& suspects, int rank) {
  const auto found = std::ranges::find(suspects, rank, &Suspect::rank);
  return found == suspects.end() ? nullptr : &*found;
}

// -- which rank waits for which ---------------------------------------------------------------

// All ranks that are in no collective operation; if `unrecorded`, only those without a flight
// recorder.
std::vector<int> not_in_collective(const Suspects& suspects, bool unrecorded) {
  std::vector<int> out;
  for (const Suspect& one : suspects) {
    if (!one.waits && (!unrecorded || one.evidence->positions.empty())) {
      out.push_back(one.rank);
    }
  }
  return out;
}

int rank_of_process(const Suspects& suspects, pid_t pid) {
  for (const Suspect& one : suspects) {
    if (std::ranges::any_of(one.evidence->processes,
                            [&](const ProcessFacts& process) { return process.pid == pid; })) {
      return one.rank;
    }
  }
  return -1;
}

void find_waits(const Evidence& evidence, Suspects& suspects) {
  const std::vector<int> others = not_in_collective(suspects, false);
  const std::vector<int> unrecorded = not_in_collective(suspects, true);
  for (Suspect& one : suspects) {
    if (one.waits) {
      one.waits_for = behind(evidence, *one.evidence);
      if (one.waits_for.empty()) {
        // No recorder shows a rank that is behind. If this rank has a recorder, only ranks without
        // a recorder can be missing. Otherwise any rank that is in no operation can be missing.
        one.waits_for = is_recorded(one) ? unrecorded : others;
      }
    } else if (one.own.holder != 0) {
      // A pid identifies a process only on its own node. In a multi-node job that node has already
      // found the rank (summary_of()).
      const int holder =
          one.evidence->own ? one.own.holder_rank : rank_of_process(suspects, one.own.holder);
      // The holder may be a child process of the same rank.
      if (holder >= 0 && holder != one.rank) {
        one.waits_for = {holder};
      }
    }
    std::erase(one.waits_for, one.rank);
  }
}

// The ranks at the ends of all wait chains. They wait for no other rank.
std::vector<const Suspect*> ends_of_chains(const Suspects& suspects) {
  std::vector<const Suspect*> out;
  std::set<int> seen;
  std::vector<int> open;
  for (const Suspect& one : suspects) {
    open.push_back(one.rank);
  }
  for (std::size_t i = 0; i < open.size(); ++i) {
    const Suspect* const at = seen.insert(open[i]).second ? find(suspects, open[i]) : nullptr;
    if (at == nullptr) {
      continue;
    }
    // A rank in an operation is not the cause, even if the rank that it waits for is unknown.
    if (at->waits_for.empty() && !at->waits) {
      out.push_back(at);
    }
    open.insert(open.end(), at->waits_for.begin(), at->waits_for.end());
  }
  return out;
}

// -- verdicts ---------------------------------------------------------------------------------

bool waited_for(const Suspects& suspects, int rank) {
  return std::ranges::any_of(suspects, [&](const Suspect& one) {
    return std::ranges::find(one.waits_for, rank) != one.waits_for.end();
  });
}

// A rank that still makes progress is blamed only if another rank waits for it.
bool may_be_blamed(const Evidence& evidence, const Suspects& suspects, const Suspect& one) {
  return one.evidence->quiet >= evidence.limit || waited_for(suspects, one.rank);
}

Verdict held_up_by(const Evidence& evidence, const Suspects& suspects, const Suspect& culprit) {
  Verdict out{culprit.own.cause, {culprit.rank}, culprit.own.reason, {}};
  // Ranks that are in the same state are blamed together.
  for (const Suspect& one : suspects) {
    if (one.rank != culprit.rank && !one.waits && one.own.cause == culprit.own.cause &&
        one.waits_for.empty() && !one.evidence->ended && may_be_blamed(evidence, suspects, one)) {
      out.ranks.push_back(one.rank);
    }
  }
  return out;
}

// The operation in which the other ranks wait, for the message about a rank that does not reach it.
std::string place_of_waiting(const Suspects& suspects, int rank) {
  for (const Suspect& one : suspects) {
    if (one.waits && std::ranges::find(one.waits_for, rank) != one.waits_for.end()) {
      const std::string place = describe_position(*one.evidence);
      return place.empty() ? one.own.collective : place;
    }
  }
  return "";
}

// `theirs` is the operation in which the other ranks wait.
Verdict skipped(const Suspect& culprit, const std::string& theirs) {
  const std::string mine = describe_position(*culprit.evidence);
  Verdict out{Cause::skipped_collective, {culprit.rank}, "", {}};
  out.reason = fmt::format("skipped a collective: the others are waiting {}; it {}{}",
                           theirs.starts_with("in ") ? theirs : "in " + theirs,
                           culprit.evidence->ended ? "has exited" : "is " + culprit.own.reason,
                           mine.empty() ? "" : ", " + mine);
  return out;
}

// Chooses among the chain ends. A rank whose state is conclusive comes first, then a rank that
// others wait for, then a rank that has been quiet for too long. A wait on a socket may itself be a
// wait for another rank, and an unknown state proves nothing, so ranks in these states come last.
const Suspect* choose(const Evidence& evidence, const Suspects& suspects) {
  auto ends = ends_of_chains(suspects);
  // A stopped rank may also wait for a lock that another rank holds. It is to blame even though it
  // is not at the end of a chain.
  for (const Suspect& one : suspects) {
    if (one.own.cause == Cause::stopped) {
      ends.insert(ends.begin(), &one);
    }
  }
  std::erase_if(ends, [&](const Suspect* end) { return !may_be_blamed(evidence, suspects, *end); });
  const auto order = [&](const Suspect* end) {
    return std::tuple(!is_definite(end->own.cause),
                      !waited_for(suspects, end->rank),
                      end->own.cause == Cause::waits_for_socket,
                      end->own.cause == Cause::unknown);
  };
  const auto first = std::ranges::min_element(ends, {}, order);
  return first == ends.end() ? nullptr : *first;
}

// Describes the operation in which a rank waits, using only facts that are known for all waiting
// ranks. If only some ranks have recorders, only the operation's name is known. Empty if these
// facts are unknown.
std::string wait_of(const Suspect& one, bool all_recorded, bool none_recorded) {
  if (!one.waits || none_recorded) {
    return one.waits ? one.own.reason : "";
  }
  const std::string in = all_recorded ? group_of_wait(*one.evidence) : one.own.collective;
  return in.empty() ? "" : "waiting in " + in;
}

// Compares the ranks' operations by the sequence numbers in the recorders or, without them, by the
// operation in which each rank waits.
Verdict by_operations(const Evidence& evidence, const Suspects& suspects) {
  if (auto odd = differing(evidence)) {
    return {odd->skipped ? Cause::skipped_collective : Cause::different_collective,
            odd->ranks,
            odd->words,
            {}};
  }
  const auto recorded = std::ranges::count_if(
      suspects, [](const Suspect& one) { return one.waits && is_recorded(one); });
  const auto waiting = std::ranges::count_if(suspects, &Suspect::waits);
  std::map<std::string, std::vector<int>> by_name;
  for (const Suspect& one : suspects) {
    if (std::string in = wait_of(one, recorded == waiting, recorded == 0); !in.empty()) {
      by_name[std::move(in)].push_back(one.rank);
    }
  }
  if (by_name.size() > 1) {
    const auto odd = std::ranges::min_element(
        by_name, {}, [](const auto& entry) { return entry.second.size(); });
    const auto most = std::ranges::max_element(
        by_name, {}, [](const auto& entry) { return entry.second.size(); });
    // If all sides are equally large, min_element and max_element both return the first side.
    const auto& other = odd == most ? *std::next(by_name.begin()) : *most;
    return {Cause::different_collective,
            odd->second,
            fmt::format("different collective: it is {}; rank {} is {}",
                        odd->first,
                        other.second.front(),
                        other.first),
            {}};
  }
  return {};
}

Verdict nobody_to_blame(const Evidence& evidence, const Suspects& suspects) {
  Verdict out;
  for (const Suspect& one : suspects) {
    out.ranks.push_back(one.rank);
  }
  // Ranks on nodes without --hang-timeout, or with an unreadable answer, are not in the evidence.
  if (evidence.world_size > static_cast<int>(evidence.ranks.size())) {
    out.cause = Cause::waits_for_rank;
    out.reason = "the ranks are waiting for ranks that could not be inspected";
    return out;
  }
  const bool all = std::ranges::all_of(suspects, &Suspect::waits);
  out.cause = all ? Cause::all_wait : Cause::unknown;
  out.reason = all ? "all ranks are in the same operation, which is not completing"
                   : "the ranks are waiting for each other";
  return out;
}

// -- groups -----------------------------------------------------------------------------------

std::vector<Group> groups_of(const Suspects& suspects, const Verdict& verdict) {
  std::map<std::pair<std::string, std::string>, Group> groups;
  for (const Suspect& one : suspects) {
    const std::string position = describe_position(*one.evidence);
    Group& group = groups[{one.own.reason, position}];
    group.ranks.push_back(one.rank);
    // In an operation, the library itself waits on a lock or socket, so that wait explains nothing.
    group.cause = one.waits ? Cause::waits_for_rank : one.own.cause;
    group.reason = one.own.reason;
    group.position = position;
    group.stack = one.own.stack;
    group.waits_for = one.waits_for;
  }
  std::vector<Group> out;
  for (auto& [key, group] : groups) {
    out.push_back(std::move(group));
  }
  // The report has room for only a few groups, so groups that stand out come first.
  const auto odd_first = [&](const Group& group) {
    const bool blamed = std::ranges::any_of(group.ranks, [&](int rank) {
      return std::ranges::find(verdict.ranks, rank) != verdict.ranks.end();
    });
    return std::tuple(!blamed, group.ranks.size(), group.ranks.front());
  };
  std::ranges::sort(out, {}, odd_first);
  return out;
}

Verdict blame(const Evidence& evidence, const Suspects& suspects) {
  const Suspect* const culprit = choose(evidence, suspects);
  if (culprit == nullptr) {
    Verdict odd = by_operations(evidence, suspects);
    return odd.ranks.empty() ? nobody_to_blame(evidence, suspects) : odd;
  }
  // These states do not explain the hang, but the place where the other ranks wait does.
  const bool elsewhere = culprit->own.cause == Cause::waits_for_socket ||
                         culprit->own.cause == Cause::unknown || culprit->evidence->ended;
  // Empty if the others wait for a lock or a pipe that the culprit holds, because the culprit has
  // then skipped nothing.
  const std::string theirs = place_of_waiting(suspects, culprit->rank);
  if (elsewhere && !theirs.empty()) {
    return skipped(*culprit, theirs);
  }
  return held_up_by(evidence, suspects, *culprit);
}

}  // namespace

Verdict judge(const Evidence& evidence) {
  Suspects suspects = look_at(evidence);
  find_waits(evidence, suspects);
  // A rank that has exited matters only if another rank waits for it. erase_if moves elements while
  // it runs, so waited_for() reads a copy.
  const Suspects all = suspects;
  std::erase_if(suspects, [&](const Suspect& one) {
    return one.evidence->ended && !waited_for(all, one.rank);
  });
  Verdict out = blame(evidence, suspects);
  out.groups = groups_of(suspects, out);
  return out;
}

std::string_view name_of(Cause cause) {
  switch (cause) {
    case Cause::unknown:
      return "unknown";
    case Cause::stopped:
      return "stopped";
    case Cause::blocked_io:
      return "blocked_io";
    case Cause::spinning:
      return "spinning";
    case Cause::skipped_collective:
      return "skipped_collective";
    case Cause::different_collective:
      return "different_collective";
    case Cause::deadlocked:
      return "deadlocked";
    case Cause::data_loader:
      return "data_loader";
    case Cause::waits_for_child:
      return "waits_for_child";
    case Cause::waits_for_socket:
      return "waits_for_socket";
    case Cause::waits_for_rank:
      return "waits_for_rank";
    case Cause::waits_for_input:
      return "waits_for_input";
    case Cause::sleeps:
      return "sleeps";
    case Cause::waits_for_thread:
      return "waits_for_thread";
    case Cause::all_wait:
      return "all_wait";
    case Cause::node_silent:
      return "node_silent";
  }
  return "unknown";
}

}  // namespace muster::hang
