// SPDX-License-Identifier: Apache-2.0
// Checkers: the invariants of every simulated run, derived from the rules (rendezvous/README.md)
// and not from the cores. The world reports what really happens. The first violation is stored as
// text. Value-like; one per run.
//
// A worker counts as running from its spawn to its death in the kernel, whatever its agent
// believes. Nothing runs on a frozen machine. For kThawGrace after a thaw its workers do not count
// either: no software can act before it is scheduled, so the guarantee is that the guard, whose
// timer is overdue, kills them within that time. The same holds if guard and agent are both
// stopped: after the lease, workers do not count for guard_wakes_within plus kThawGrace, in which
// the guard's own timer continues it.
#pragma once

#include "rendezvous/round/node_events.hpp"
#include "sim/nodes/event_queue.hpp"
#include "sim/nodes/options.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster::sim {

inline constexpr Duration kThawGrace = std::chrono::milliseconds(10);

class Checkers {
 public:
  explicit Checkers(const NodesOptions& options) : options_(options) {}

  // What live nodes know about earlier rounds; number 0 if nothing.
  struct Known {
    RoundId remembered{};  // the latest round that one of them was told to run
    RoundId recalled{};    // the latest round that one of them knows from a record
  };

  // A node was told to run a round.
  void ran(NodeId node, const RunRound& run, const Known& known, VirtualTime now);

  // A node was told to run a mend of the round.
  void mended(RoundId round, const RunMend& run);

  // Workers of a round start or stop running on a node.
  void runs(RoundId round);
  void runs_no_more(RoundId round);

  void store_opened(RoundId round, std::uint16_t port) { stores_[round] = port; }

  void worker_failed(RoundId round, VirtualTime now);
  void node_gone(NodeId node, VirtualTime now);
  void closed(const Close& close);

  void complain(const std::string& problem);

  [[nodiscard]] const std::string& problem() const { return problem_; }

  [[nodiscard]] const std::optional<Close>& close() const { return close_; }

  // Rounds with running workers.
  [[nodiscard]] const std::vector<std::pair<RoundId, std::uint32_t>>& running() const {
    return running_;
  }

  [[nodiscard]] std::uint64_t rounds() const { return rounds_.size(); }

  [[nodiscard]] RoundPtr round(RoundId id) const;

 private:
  struct Record {
    RoundPtr round;
    std::string master_addr;
    std::uint16_t master_port = 0;
    LeaderOffer offer;
    std::optional<VirtualTime> first_failure;
    std::optional<VirtualTime> first_loss;  // time of the first loss of a member
  };

  void check_new(const Round& round, const Known& known);
  void check_budget(const Round& round, const Record& before);

  const NodesOptions& options_;
  std::map<RoundId, Record> rounds_;
  std::map<RoundId, std::uint16_t> stores_;
  // The ranks of each mend. Epochs grow in a round, and on each node. Two leaders may use the same
  // epoch in different rounds, if only lost nodes knew the first one.
  std::map<std::pair<RoundId, std::uint64_t>, std::vector<std::int32_t>> mends_;
  std::map<NodeId, RoundId> last_;  // last round of each node that ever ran
  std::map<NodeId, VirtualTime> gone_;
  std::vector<std::pair<RoundId, std::uint32_t>> running_;
  std::optional<Close> close_;
  std::string problem_;
};

}  // namespace muster::sim
