// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/rounds.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <sstream>

namespace muster::bench {
namespace {

std::optional<double> figure(const Rounds& rounds,
                             const std::string& peer,
                             std::size_t round,
                             const std::string& key) {
  const auto series = rounds.by_peer.find(peer);
  if (series == rounds.by_peer.end() || round >= series->second.size()) {
    return std::nullopt;
  }
  const auto found = series->second[round].find(key);
  return found == series->second[round].end() ? std::nullopt : std::optional(found->second);
}

std::optional<double> least(const Rounds& rounds,
                            const std::vector<std::string>& peers,
                            std::size_t round,
                            const std::string& key) {
  std::optional<double> best;
  for (const auto& peer : peers) {
    const auto one = figure(rounds, peer, round, key);
    best = one && (!best || *one < *best) ? one : best;
  }
  return best;
}

std::string why_missing(const Rounds& rounds, const std::string& peer, bool wanted) {
  const auto found = rounds.missing.find(peer);
  if (found != rounds.missing.end()) {
    return found->second;
  }
  const auto series = rounds.by_peer.find(peer);
  const bool failed =
      series != rounds.by_peer.end() &&
      std::ranges::all_of(series->second, [](const Figures& one) { return one.empty(); });
  return wanted && failed ? "failed" : "";
}

}  // namespace

Figures parse_figures(const std::string& text) {
  Figures figures;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto space = line.find(' ');
    double number = 0;
    if (space == std::string::npos) {
      continue;
    }
    const char* const end = line.data() + line.size();
    const auto [stop, error] = std::from_chars(line.data() + space + 1, end, number);
    if (error == std::errc() && stop == end) {
      figures[line.substr(0, space)] = number;
    }
  }
  return figures;
}

std::size_t Rounds::count() const {
  std::size_t most = 0;
  for (const auto& [peer, series] : by_peer) {
    most = std::max(most, series.size());
  }
  return most;
}

std::size_t drop_disturbed(Rounds& rounds,
                           const std::string& peer,
                           const std::string& key,
                           double slack) {
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t round = 0; round < rounds.count(); ++round) {
    best = std::min(best, figure(rounds, peer, round, key).value_or(best));
  }
  std::size_t dropped = 0;
  for (std::size_t round = rounds.count(); round-- > 0;) {
    if (figure(rounds, peer, round, key).value_or(best) <= slack * best) {
      continue;
    }
    ++dropped;
    for (auto& [name, series] : rounds.by_peer) {
      if (round < series.size()) {
        series.erase(series.begin() + static_cast<std::ptrdiff_t>(round));
      }
    }
  }
  return dropped;
}

void fill_row(Table& table,
              const std::string& name,
              const Rounds& rounds,
              const std::string& peer,
              const std::vector<std::string>& keys) {
  Row& row = table.add_row(name);
  for (std::size_t column = 0; column < keys.size(); ++column) {
    Cell& cell = row.cells[column];
    for (std::size_t round = 0; round < rounds.count(); ++round) {
      if (const auto one = figure(rounds, peer, round, keys[column])) {
        cell.samples.push_back(*one);
      }
    }
    if (cell.samples.empty()) {
      cell.missing = why_missing(rounds, peer, !keys[column].empty());
    }
  }
}

void fill_ratio(Table& table, const Rounds& rounds, const Comparison& comparison) {
  Row& row = table.add_row(comparison.name);
  for (std::size_t column = 0; column < comparison.keys.size(); ++column) {
    for (std::size_t round = 0; round < rounds.count(); ++round) {
      const auto own = figure(rounds, comparison.peer, round, comparison.keys[column]);
      const auto other = least(rounds, comparison.others, round, comparison.other_keys[column]);
      if (own && other && *own > 0) {
        row.cells[column].samples.push_back(*other / *own);
      }
    }
  }
}

}  // namespace muster::bench
