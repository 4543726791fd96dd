// SPDX-License-Identifier: Apache-2.0
// The verdict on a multi-node job: each node's report on its evidence, and the conclusion from all
// reports. Used by the agent on the leader node. Pure.
#pragma once

#include "hang/evidence.hpp"
#include "hang/report/verdict_text.hpp"
#include "hang/verdict.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace muster::hang {

// Limit on ranks per node; further ranks are not reported.
inline constexpr int kRanksOfNodeMax = 4096;

// Each rank, judged separately, with its position in the collective operations but without its
// processes.
[[nodiscard]] Evidence summary_of(const Evidence& evidence);

// How a node responded to an inquiry.
enum class NodeState : std::uint8_t {
  answered,
  finished,    // all ranks of the node exited successfully
  silent,      // no message from the node for some time
  late,        // the node is alive but did not answer
  off,         // --hang-timeout is off on the node
  unreadable,  // the node's answer is invalid
};

struct NodeFindings {
  std::string name;
  int rank_first = 0;
  int ranks = 0;
  NodeState state = NodeState::answered;
  double waited = 0;  // seconds, for silent and late
  Evidence evidence{};
};

struct WholeVerdict {
  bool counts = false;    // false if a rank makes progress or is alive: check again later
  int acting_rank = -1;   // rank whose node carries out the action; -1 if none can
  std::string told_by{};  // the node that prints the whole report
  Verdict verdict{};
  VerdictFacts facts{};
  bool operator==(const WholeVerdict&) const = default;
};

[[nodiscard]] WholeVerdict judge_all(const std::vector<NodeFindings>& nodes);

}  // namespace muster::hang
