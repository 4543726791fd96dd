// SPDX-License-Identifier: Apache-2.0
#include "hang/judge/collective_places.hpp"

#include "base/plural.hpp"
#include "base/printable.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

namespace muster::hang {
namespace {

const Position* position_in(const RankEvidence& rank, const std::string& group) {
  const auto found = std::ranges::find(rank.positions, group, &Position::group);
  return found == rank.positions.end() ? nullptr : &*found;
}

std::string named(const Operation& operation) {
  return fmt::format("#{} {}", operation.number, operation.what);
}

bool has_come_to(const Position& position, const Operation& operation) {
  return position.entered >= operation.number;
}

// The operations called just before and just after a given operation; empty if unknown.
struct Neighbours {
  std::string before;
  std::string after;
};

// A training loop repeats its calls, so earlier rounds show what normally surrounds an operation.
// If the newest call of the operation is the last record, `after` comes from an earlier call.
Neighbours neighbours_of(const Position& position, const std::string& what) {
  Neighbours out;
  const auto& recent = position.recent;
  for (std::size_t i = 0; i < recent.size(); ++i) {
    if (recent[i].what == what) {
      out.before = i > 0 ? recent[i - 1].what : out.before;
      out.after = i + 1 < recent.size() ? recent[i + 1].what : out.after;
    }
  }
  return out;
}

// The ranks of a group, grouped by the operation that each calls with a given sequence number.
using Sides = std::map<std::string, std::vector<const RankEvidence*>>;

Sides sides_of(const Evidence& evidence, const std::string& group, std::uint64_t number) {
  Sides out;
  // Transfers have their own sequence numbers, which do not correspond to those of collectives.
  for (const RankEvidence& rank : evidence.ranks) {
    const Position* const at = position_in(rank, group);
    for (const Operation& operation : at == nullptr ? std::vector<Operation>{} : at->pending) {
      if (operation.number == number && operation.peer < 0) {
        out[operation.what].push_back(&rank);
      }
    }
  }
  return out;
}

std::vector<int> numbers_of(const std::vector<const RankEvidence*>& ranks) {
  std::vector<int> out;
  std::ranges::transform(
      ranks, std::back_inserter(out), [](const RankEvidence* rank) { return rank->rank; });
  return out;
}

Differing compare(const Sides& sides, const std::string& group, std::uint64_t number) {
  const auto count = [](const auto& side) { return side.second.size(); };
  const auto most = std::ranges::max_element(sides, {}, count);
  auto least = std::ranges::min_element(sides, {}, count);
  // If all sides are equally large, both searches return the first side.
  least = least == most ? std::next(sides.begin()) : least;
  Differing out{numbers_of(least->second), false, ""};
  // The history of the majority shows the normal order. If the minority's call normally
  // follows the majority's call, the minority has skipped a call. If the minority's call normally
  // precedes the majority's call, the minority may have repeated a call. If both are true, the
  // history proves nothing.
  const Position* const before = position_in(*most->second.front(), group);
  const Neighbours near = neighbours_of(*before, most->first);
  out.skipped = near.after == least->first && near.before != least->first;
  const bool extra = near.before == least->first && near.after != least->first;
  out.words = fmt::format("{}: its operation #{} is {}, but {} {} {}",
                          out.skipped ? "skipped a collective" : "different collective",
                          number,
                          least->first,
                          name_ranks(numbers_of(most->second)),
                          agreeing(most->second.size(), "calls", "call"),
                          most->first);
  out.words +=
      out.skipped ? ", which comes before it" : (extra ? "; it may have called one too many" : "");
  return out;
}

}  // namespace

std::string describe_position(const RankEvidence& rank) {
  for (const Position& at : rank.positions) {
    if (!at.pending.empty()) {
      const Operation& operation = at.pending.front();
      return fmt::format("in {} ({} s)", named(operation), operation.age / 1'000'000'000);
    }
  }
  for (const Position& at : rank.positions) {
    if (!at.recent.empty()) {
      return "after " + named(at.recent.back());
    }
  }
  return "";
}

std::string group_of_wait(const RankEvidence& rank) {
  // Only two ranks take part in a transfer. Ranks in different transfers may still be in step, so
  // transfers are not compared.
  for (const Position& at : rank.positions) {
    if (!at.pending.empty() && at.pending.front().peer < 0) {
      return fmt::format("{} of {}", named(at.pending.front()), at.group);
    }
  }
  return "";
}

std::vector<int> behind(const Evidence& evidence, const RankEvidence& rank) {
  std::vector<int> out;
  for (const Position& mine : rank.positions) {
    for (const Operation& operation : mine.pending) {
      for (const RankEvidence& other : evidence.ranks) {
        const Position* const theirs = position_in(other, mine.group);
        // Without a position, the rank is not a member of the group or its recorder could not be
        // read.
        if (theirs == nullptr || other.rank == rank.rank) {
          continue;
        }
        // `entered` does not count transfers, so it cannot show whether the peer has called this
        // transfer. Therefore always treat the peer as behind.
        const bool is_peer = operation.peer >= 0;
        if (is_peer ? theirs->rank == operation.peer : !has_come_to(*theirs, operation)) {
          out.push_back(other.rank);
        }
      }
    }
  }
  std::ranges::sort(out);
  const auto repeated = std::ranges::unique(out);
  out.erase(repeated.begin(), repeated.end());
  return out;
}

std::optional<Differing> differing(const Evidence& evidence) {
  for (const RankEvidence& rank : evidence.ranks) {
    for (const Position& at : rank.positions) {
      for (const Operation& operation : at.pending) {
        const Sides sides = sides_of(evidence, at.group, operation.number);
        if (operation.peer < 0 && sides.size() > 1) {
          return compare(sides, at.group, operation.number);
        }
      }
    }
  }
  return std::nullopt;
}

}  // namespace muster::hang
