// SPDX-License-Identifier: Apache-2.0
// The state table of SupervisorCore: one row per state, one cell per event. The actions are in
// supervisor_*.cpp. README.md shows the same table as text.
#include "agent/supervisor/supervisor_core.hpp"
#include "base/check.hpp"

#include <array>

namespace muster {
namespace {

constexpr std::size_t kStates = 8;
constexpr std::size_t kEvents = std::variant_size_v<SupervisorEvent>;

}  // namespace

struct SupervisorCore::Table {
  using Core = SupervisorCore;
  using Row = std::array<Action, kEvents>;

  // Most impossible events are answers to effects that the state does not emit. RoundFormed answers
  // AwaitRound, which only begin_round() emits. WorkerSpawned and SpawnFailed answer SpawnWorker
  // before any other event. NothingLeft follows only after the state has become clearing or
  // killing.
  // clang-format off
  static constexpr std::array<Row, kStates> kCells{{
      {{  // joining
          &Core::begin_round,         // Started
          &Core::spawn_first,         // RoundFormed
          &Core::ignore,              // RegroupNotice
          &Core::impossible,          // WorkerSpawned
          &Core::impossible,          // SpawnFailed
          &Core::impossible,          // WorkerExited
          &Core::ignore,              // GroupsEmpty
          &Core::impossible,          // NothingLeft
          &Core::end_before_start,    // SignalReceived
          &Core::end_orphaned,        // LinkLost
          &Core::leave_preempted,     // Tick
          &Core::ignore,              // Fenced
          &Core::close_unstarted,     // RoundClosed
          &Core::impossible,          // WorkerFailure
          &Core::ignore,              // LeftoversSeen
          &Core::impossible,          // MendFormed
          &Core::impossible,          // MendRefused
          &Core::ignore,              // WorkerReady
          &Core::ignore,              // WorkerLeft
          &Core::ignore,              // WorkerHeard
          &Core::note_preempted}},    // Preempted
      {{  // running
          &Core::impossible,          // Started
          &Core::impossible,          // RoundFormed
          &Core::regroup,             // RegroupNotice
          &Core::spawn_next,          // WorkerSpawned
          &Core::note_spawn_failure,  // SpawnFailed
          &Core::note_exit,           // WorkerExited
          &Core::note_groups_empty,   // GroupsEmpty
          &Core::impossible,          // NothingLeft
          &Core::take_signal,         // SignalReceived
          &Core::kill_orphaned,       // LinkLost
          &Core::decide_held,         // Tick
          &Core::kill_fenced,         // Fenced
          &Core::stop_closed,         // RoundClosed
          &Core::note_dying,          // WorkerFailure
          &Core::ignore,              // LeftoversSeen
          &Core::note_mend_formed,    // MendFormed
          &Core::impossible,          // MendRefused
          &Core::note_ready,          // WorkerReady
          &Core::note_left,           // WorkerLeft
          &Core::note_heard,          // WorkerHeard
          &Core::note_preempted}},    // Preempted
      {{  // mending
          &Core::impossible,          // Started
          &Core::impossible,          // RoundFormed
          &Core::regroup,             // RegroupNotice
          &Core::note_replaced,       // WorkerSpawned
          &Core::note_spawn_failure,  // SpawnFailed
          &Core::note_exit,           // WorkerExited
          &Core::note_groups_empty,   // GroupsEmpty
          &Core::impossible,          // NothingLeft
          &Core::take_signal,         // SignalReceived
          &Core::kill_orphaned,       // LinkLost
          &Core::end_late_mend,       // Tick
          &Core::kill_fenced,         // Fenced
          &Core::stop_closed,         // RoundClosed
          &Core::note_dying,          // WorkerFailure
          &Core::ignore,              // LeftoversSeen
          &Core::note_mend_formed,    // MendFormed
          &Core::note_mend_refused,   // MendRefused
          &Core::note_resumed,        // WorkerReady
          &Core::end_left_mend,       // WorkerLeft
          &Core::note_heard,          // WorkerHeard
          &Core::note_preempted}},    // Preempted
      {{  // stopping
          &Core::impossible,          // Started
          &Core::impossible,          // RoundFormed
          &Core::raise_to_regroup,    // RegroupNotice
          &Core::impossible,          // WorkerSpawned
          &Core::impossible,          // SpawnFailed
          &Core::note_late_exit,      // WorkerExited
          &Core::clear,               // GroupsEmpty
          &Core::impossible,          // NothingLeft
          &Core::take_second_signal,  // SignalReceived
          &Core::kill_orphaned,       // LinkLost
          &Core::kill_overdue,        // Tick
          &Core::kill_fenced,         // Fenced
          &Core::hurry_closed,        // RoundClosed
          &Core::note_also_dying,     // WorkerFailure
          &Core::take_looks,          // LeftoversSeen
          &Core::ignore,              // MendFormed
          &Core::ignore,              // MendRefused
          &Core::ignore,              // WorkerReady
          &Core::ignore,              // WorkerLeft
          &Core::ignore,              // WorkerHeard
          &Core::note_preempted}},    // Preempted
      {{  // clearing
          &Core::impossible,            // Started
          &Core::impossible,            // RoundFormed
          &Core::raise_while_clearing,  // RegroupNotice
          &Core::impossible,            // WorkerSpawned
          &Core::impossible,            // SpawnFailed
          &Core::note_worker_gone,      // WorkerExited
          &Core::ignore,                // GroupsEmpty
          &Core::go_on,                 // NothingLeft
          &Core::take_signal_clearing,  // SignalReceived
          &Core::kill_orphaned,         // LinkLost
          &Core::go_on_clearing,        // Tick
          &Core::kill_fenced,           // Fenced
          &Core::close_while_clearing,  // RoundClosed
          &Core::ignore,                // WorkerFailure
          &Core::take_looks,            // LeftoversSeen
          &Core::ignore,                // MendFormed
          &Core::ignore,                // MendRefused
          &Core::ignore,                // WorkerReady
          &Core::ignore,                // WorkerLeft
          &Core::ignore,                // WorkerHeard
          &Core::note_preempted}},      // Preempted
      {{  // killing
          &Core::impossible,          // Started
          &Core::impossible,          // RoundFormed
          &Core::raise_to_regroup,    // RegroupNotice
          &Core::impossible,          // WorkerSpawned
          &Core::impossible,          // SpawnFailed
          &Core::note_worker_gone,    // WorkerExited
          &Core::ignore,              // GroupsEmpty
          &Core::go_on,               // NothingLeft
          &Core::take_late_signal,    // SignalReceived
          &Core::kill_orphaned,       // LinkLost
          &Core::abandon_unkillable,  // Tick
          &Core::kill_fenced_last,    // Fenced
          &Core::hurry_closed,        // RoundClosed
          &Core::ignore,              // WorkerFailure
          &Core::take_looks,          // LeftoversSeen
          &Core::ignore,              // MendFormed
          &Core::ignore,              // MendRefused
          &Core::ignore,              // WorkerReady
          &Core::ignore,              // WorkerLeft
          &Core::ignore,              // WorkerHeard
          &Core::note_preempted}},    // Preempted
      {{  // waiting
          &Core::impossible,          // Started
          &Core::impossible,          // RoundFormed
          &Core::rejoin,              // RegroupNotice
          &Core::impossible,          // WorkerSpawned
          &Core::impossible,          // SpawnFailed
          &Core::impossible,          // WorkerExited
          &Core::ignore,              // GroupsEmpty
          &Core::impossible,          // NothingLeft
          &Core::leave_finished,      // SignalReceived
          &Core::end_orphaned,        // LinkLost
          &Core::end_waiting,         // Tick
          &Core::rejoin,              // Fenced
          &Core::end_closed,          // RoundClosed
          &Core::impossible,          // WorkerFailure
          &Core::ignore,              // LeftoversSeen
          &Core::ignore,              // MendFormed
          &Core::ignore,              // MendRefused
          &Core::ignore,              // WorkerReady
          &Core::ignore,              // WorkerLeft
          &Core::ignore,              // WorkerHeard
          &Core::note_preempted}},    // Preempted
      {{  // done
          &Core::impossible,          // Started
          &Core::impossible,          // RoundFormed
          &Core::ignore,              // RegroupNotice
          &Core::impossible,          // WorkerSpawned
          &Core::impossible,          // SpawnFailed
          &Core::ignore,              // WorkerExited
          &Core::ignore,              // GroupsEmpty
          &Core::ignore,              // NothingLeft
          &Core::ignore,              // SignalReceived
          &Core::ignore,              // LinkLost
          &Core::ignore,              // Tick
          &Core::ignore,              // Fenced
          &Core::ignore,              // RoundClosed
          &Core::ignore,              // WorkerFailure
          &Core::ignore,              // LeftoversSeen
          &Core::ignore,              // MendFormed
          &Core::ignore,              // MendRefused
          &Core::ignore,              // WorkerReady
          &Core::ignore,              // WorkerLeft
          &Core::ignore,              // WorkerHeard
          &Core::ignore}}}};          // Preempted

  // clang-format on

  static constexpr bool all_filled() {
    for (const auto& row : kCells) {
      for (const auto cell : row) {
        if (cell == nullptr) {
          return false;
        }
      }
    }
    return true;
  }
};

void SupervisorCore::step(TimePoint now, const SupervisorEvent& event, Effects& out) {
  // With -fsanitize=undefined, g++ does not accept a function's address as a non-zero constant.
#ifndef __SANITIZE_ADDRESS__
  static_assert(Table::all_filled(), "a cell of the table is empty");
#endif
  MUSTER_CHECK(now >= times_.now);
  times_.now = now;
  Turn turn{now, event, out};
  // Any event may be the first one after leave_at_. In state waiting, end_waiting() also reports
  // that no process remains.
  if (leave_at_ && now >= *leave_at_ && state_ != SupervisorState::waiting) {
    say_leaving(turn);
  }
  const Action action = Table::kCells.at(static_cast<std::size_t>(state_)).at(event.index());
  (this->*action)(turn);
}

bool SupervisorCore::is_impossible(SupervisorState state, std::size_t event) {
  return Table::kCells.at(static_cast<std::size_t>(state)).at(event) == &SupervisorCore::impossible;
}

// NOLINTNEXTLINE(readability-convert-member-functions-to-static): a cell of the table
void SupervisorCore::ignore(Turn& /*turn*/) {}

// NOLINTNEXTLINE(readability-convert-member-functions-to-static): a cell of the table
void SupervisorCore::impossible(Turn& /*turn*/) {
  MUSTER_CHECK(!"this event is impossible in this state");
}

}  // namespace muster
