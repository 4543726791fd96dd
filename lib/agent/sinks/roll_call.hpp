// SPDX-License-Identifier: Apache-2.0
// RollCallView: the lines that a node prints on stderr while it waits for other nodes. It prints
// nothing in the first second, then one line per change. On a terminal it rewrites a single live
// line, which disappears when the workers start. Pure: the agent writes the returned text
// unchanged.
#pragma once

#include "base/time.hpp"
#include "rendezvous/wire/round_messages.hpp"

#include <cstddef>
#include <optional>
#include <set>
#include <string>

namespace muster {

// If all nodes join within this time, nothing is printed.
inline constexpr Duration kRollCallQuiet = std::chrono::seconds(1);

// A longer wait is reported repeatedly, so that the log shows that the launcher is alive.
inline constexpr Duration kRollCallRepeat = std::chrono::seconds(30);

struct RollCallStyle {
  bool live = false;         // the output is a terminal
  std::size_t columns = 80;  // width of the terminal
  bool silent = false;       // --log-level=error
  Duration give_up{};        // how long a node without workers waits for a round
};

class RollCallView {
 public:
  explicit RollCallView(RollCallStyle style) : style_(style) {}

  // Starts waiting for a round.
  void begin(TimePoint now);

  // Call when a worker exits, because the join timeout counts from the last exit of the previous
  // round.
  void worker_ended(TimePoint now);

  // Receives the latest status. Returns an empty string if nothing is to be printed now.
  [[nodiscard]] std::string take(TimePoint now, const RollCall& call, const std::string& trouble);

  // When the next line is due: at the end of the first second if a change has not been printed,
  // otherwise when the last line is to be repeated.
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;
  [[nodiscard]] std::string tick(TimePoint now);

  // The startup is complete: from now on, lines are not repeated.
  void stop_repeating() { repeats_ = false; }

  // Removes the live line before the workers start or another message is printed.
  [[nodiscard]] std::string end();

  // Lists the present and the missing nodes, for the error that ends the wait. Empty if the list is
  // unknown or outdated.
  [[nodiscard]] std::string summary() const;

 private:
  [[nodiscard]] bool is_missing() const;
  [[nodiscard]] bool repeats() const;
  [[nodiscard]] std::string show(TimePoint now);
  [[nodiscard]] std::string time_left(TimePoint now) const;
  [[nodiscard]] std::string line(const std::string& text);

  RollCallStyle style_;
  std::optional<TimePoint> since_;        // unset if not waiting
  std::optional<TimePoint> counts_from_;  // unset if this node never gives up
  bool news_ = false;                     // a change has not been shown yet
  bool repeats_ = false;
  TimePoint shown_at_{};
  bool line_there_ = false;  // the live line is on the terminal
  RollCall call_;
  std::string trouble_;
  std::string shown_;
  std::set<std::string> refusals_shown_;
};

// For example "2 of 4 nodes are here: node1, node2; waiting for node3 (silent)". If a round is
// running without this node, the text says so. Empty if no node is known.
[[nodiscard]] std::string describe(const RollCall& call);

}  // namespace muster
