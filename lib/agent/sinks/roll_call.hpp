// SPDX-License-Identifier: Apache-2.0
// RollCallView: what a node that waits for the others says on stderr. Quiet for the first second;
// then one line for each change, on a terminal one live line that is rewritten and goes away when
// the workers start. Pure: what it returns is written by the agent as it is.
#pragma once

#include "base/time.hpp"
#include "rendezvous/wire/round_messages.hpp"

#include <cstddef>
#include <optional>
#include <set>
#include <string>

namespace muster {

// Nodes that meet sooner have nothing to wait for.
inline constexpr Duration kRollCallQuiet = std::chrono::seconds(1);

// Who waits longer says so again, lest a log look dead.
inline constexpr Duration kRollCallRepeat = std::chrono::seconds(30);

struct RollCallStyle {
  bool live = false;         // a terminal
  std::size_t columns = 80;  // of the terminal
  bool silent = false;       // --log-level=error
  Duration give_up{};        // a node without workers waits this long for a round
};

class RollCallView {
 public:
  explicit RollCallView(RollCallStyle style) : style_(style) {}

  // A round is awaited from now on.
  void begin(TimePoint now);

  // A node gives up a time after its last worker of the round before has exited.
  void worker_ended(TimePoint now);

  // The latest news. Empty: nothing is to be written now.
  [[nodiscard]] std::string take(TimePoint now, const RollCall& call, const std::string& trouble);

  // When the first second is over, if something is to be said then; later when the last line is to
  // be repeated.
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;
  [[nodiscard]] std::string tick(TimePoint now);

  // The start is over: what is said from now on is said once.
  void stop_repeating() { repeats_ = false; }

  // The workers start, or another message follows: takes the live line away.
  [[nodiscard]] std::string end();

  // For the error that ends the waiting: who was there and what is missing. Empty where nothing is
  // known of that, or not any more.
  [[nodiscard]] std::string summary() const;

 private:
  [[nodiscard]] bool is_missing() const;
  [[nodiscard]] bool repeats() const;
  [[nodiscard]] std::string show(TimePoint now);
  [[nodiscard]] std::string time_left(TimePoint now) const;
  [[nodiscard]] std::string line(const std::string& text);

  RollCallStyle style_;
  std::optional<TimePoint> since_;        // none: nothing is awaited
  std::optional<TimePoint> counts_from_;  // none: it does not give up
  bool news_ = false;                     // not shown yet
  bool repeats_ = false;
  TimePoint shown_at_{};
  bool line_there_ = false;  // the live line is on the terminal
  RollCall call_;
  std::string trouble_;
  std::string shown_;
  std::set<std::string> refusals_shown_;
};

// "2 of 4 nodes are here: node1, node2; waiting for node3 (silent)", or that a round runs without
// us. Empty without news of nodes.
[[nodiscard]] std::string describe(const RollCall& call);

}  // namespace muster
