// SPDX-License-Identifier: Apache-2.0
#include "flight_groups.hpp"

#include "base/plural.hpp"
#include "base/printable.hpp"
#include "hang/judge/collective_places.hpp"
#include "status/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

namespace muster {
namespace {

using hang::Operation;
using hang::Position;

constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

std::string named(const Operation& operation) {
  return fmt::format("#{} {}{}",
                     operation.number,
                     operation.what,
                     operation.peer < 0 ? "" : fmt::format(" with {}", operation.peer));
}

// The text does not include times, so that ranks at the same position are grouped.
std::string place_of(const Position& at) {
  const std::string after = at.recent.empty() ? "" : named(at.recent.back());
  if (!at.pending.empty()) {
    return "in " + named(at.pending.front()) + (after.empty() ? "" : ", after " + after);
  }
  return after.empty() ? "no operation yet" : "last completed " + after;
}

struct Place {
  std::vector<int> ranks;
  std::uint64_t age = 0;  // longest wait among these ranks
};

// Keyed by progress and description.
std::map<std::pair<std::uint64_t, std::string>, Place> places_in(const hang::Evidence& group) {
  std::map<std::pair<std::uint64_t, std::string>, Place> out;
  for (const hang::RankEvidence& rank : group.ranks) {
    const Position& at = rank.positions.front();
    Place& place = out[{at.entered, place_of(at)}];
    place.ranks.push_back(rank.rank);
    place.age = std::max(place.age, at.pending.empty() ? 0 : at.pending.front().age);
  }
  return out;
}

// Waiting ranks, keyed by the ranks that they are waiting for.
std::map<std::vector<int>, std::vector<int>> waits_in(const hang::Evidence& group) {
  std::map<std::vector<int>, std::vector<int>> out;
  for (const hang::RankEvidence& rank : group.ranks) {
    if (auto behind = hang::behind(group, rank); !behind.empty()) {
      out[std::move(behind)].push_back(rank.rank);
    }
  }
  return out;
}

std::string group_text(const std::string& name, const hang::Evidence& group) {
  const int size = group.ranks.front().positions.front().size;
  const std::size_t seen = group.ranks.size();
  std::string out = size > 0 ? fmt::format("{}: {} of {} ranks seen\n", name, seen, size)
                             : fmt::format("{}: {} seen\n", name, counted(seen, "rank"));
  for (const auto& [where, place] : places_in(group)) {
    out += fmt::format(
        "  {}: {}{}\n",
        name_ranks(place.ranks),
        where.second,
        place.age < kNsPerSecond ? "" : fmt::format(", for {} s", place.age / kNsPerSecond));
  }
  for (const auto& [behind, waiting] : waits_in(group)) {
    out += fmt::format("  {} {} behind: {} {} for {}\n",
                       name_ranks(behind),
                       is_are(behind.size()),
                       name_ranks(waiting),
                       agreeing(waiting.size(), "waits", "wait"),
                       agreeing(behind.size(), "it", "them"));
  }
  if (const auto odd = hang::differing(group)) {
    out += fmt::format("  {}: {}\n", name_ranks(odd->ranks), odd->words);
  }
  return out;
}

Json operation_json(const Operation& operation) {
  return {{"number", operation.number},
          {"what", operation.what},
          {"peer", operation.peer < 0 ? Json() : Json(operation.peer)},
          {"age", static_cast<double>(operation.age) / static_cast<double>(kNsPerSecond)}};
}

Json rank_json(const hang::Evidence& group, const hang::RankEvidence& rank) {
  const Position& at = rank.positions.front();
  Json pending = Json::array();
  for (const Operation& operation : at.pending) {
    pending.push_back(operation_json(operation));
  }
  return {{"rank", rank.rank},
          {"entered", at.entered},
          {"completed", at.recent.empty() ? Json() : operation_json(at.recent.back())},
          {"pending", std::move(pending)},
          {"waits_for", hang::behind(group, rank)}};
}

}  // namespace

void FlightGroups::add(int rank, Position position) {
  hang::Evidence& group = groups_[printable(position.group)];
  const auto known = std::ranges::find(group.ranks, rank, &hang::RankEvidence::rank);
  if (known != group.ranks.end()) {
    known->positions = {std::move(position)};
    return;
  }
  hang::RankEvidence one{.rank = rank};
  one.positions.push_back(std::move(position));
  group.ranks.insert(std::ranges::upper_bound(group.ranks, rank, {}, &hang::RankEvidence::rank),
                     std::move(one));
}

std::string FlightGroups::text() const {
  std::string out;
  for (const auto& [name, group] : groups_) {
    out += group_text(name, group);
  }
  return out;
}

std::string FlightGroups::json(const std::vector<std::string>& gaps) const {
  Json groups = Json::array();
  for (const auto& [name, group] : groups_) {
    Json ranks = Json::array();
    for (const hang::RankEvidence& rank : group.ranks) {
      ranks.push_back(rank_json(group, rank));
    }
    const int size = group.ranks.front().positions.front().size;
    groups.push_back(
        {{"group", name}, {"size", size > 0 ? Json(size) : Json()}, {"ranks", std::move(ranks)}});
  }
  return dump_json(Json{{"v", 1}, {"groups", std::move(groups)}, {"gaps", gaps}}) + "\n";
}

}  // namespace muster
