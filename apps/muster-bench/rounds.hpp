// SPDX-License-Identifier: Apache-2.0
// Times of many peers taken in rounds: each round every peer once. What is compared are ratios
// within a round, since a machine that others use is not the same in the next one. Pure; filled by
// the collective block.
#pragma once

#include "apps/muster-bench/report.hpp"

#include <map>
#include <string>
#include <vector>

namespace muster::bench {

// What a peer printed, "f32:1024 0.42" each line: key → number.
using Figures = std::map<std::string, double>;

// Lines of any other form are left out.
[[nodiscard]] Figures parse_figures(const std::string& text);

struct Rounds {
  std::map<std::string, std::vector<Figures>> by_peer;  // one for each round; empty: it failed
  std::map<std::string, std::string> missing;           // peers that are not there

  [[nodiscard]] std::size_t count() const;
};

// Rounds in which `peer` needed more than `slack` times its best for `key` are taken out, for all
// peers: the machine was busy. At least one stays. Returns how many were taken out.
std::size_t drop_disturbed(Rounds& rounds,
                           const std::string& peer,
                           const std::string& key,
                           double slack);

// One row: a sample for each round in which the peer gave this key.
void fill_row(Table& table,
              const std::string& name,
              const Rounds& rounds,
              const std::string& peer,
              const std::vector<std::string>& keys);

// One row: how often `peer`'s figure goes into that of the best (least) of the others, round by
// round. Keys stand beside the columns; empty ones are not measured.
struct Comparison {
  std::string name;
  std::vector<std::string> others;
  std::string peer;
  std::vector<std::string> other_keys;
  std::vector<std::string> keys;
};

void fill_ratio(Table& table, const Rounds& rounds, const Comparison& comparison);

}  // namespace muster::bench
