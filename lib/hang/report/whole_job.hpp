// SPDX-License-Identifier: Apache-2.0
// The verdict on a job of many nodes: what a node tells the others of its evidence, and what
// follows from that of all nodes. Used by the agent, on the node that leads. Pure.
#pragma once

#include "hang/evidence.hpp"
#include "hang/report/verdict_text.hpp"
#include "hang/verdict.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace muster::hang {

// Ranks of one node; of more nothing is said.
inline constexpr int kRanksOfNodeMax = 4096;

// Each rank judged by itself, and its place in the collective operations; without its processes.
[[nodiscard]] Evidence summary_of(const Evidence& evidence);

// How a node took part.
enum class NodeState : std::uint8_t {
  answered,
  finished,    // all its ranks have ended well
  silent,      // nothing was heard of it
  late,        // it lives and did not answer
  off,         // --hang-timeout is off there
  unreadable,  // its answer is none
};

struct NodeFindings {
  std::string name;
  int rank_first = 0;
  int ranks = 0;
  NodeState state = NodeState::answered;
  double waited = 0;  // silent, late: seconds
  Evidence evidence{};
};

struct WholeVerdict {
  bool counts = false;    // else: somebody makes progress or lives, look again later
  int acting_rank = -1;   // whose node carries out what was asked for; -1: nobody can
  std::string told_by{};  // the node that shows all of it
  Verdict verdict{};
  VerdictFacts facts{};
  bool operator==(const WholeVerdict&) const = default;
};

[[nodiscard]] WholeVerdict judge_all(const std::vector<NodeFindings>& nodes);

}  // namespace muster::hang
