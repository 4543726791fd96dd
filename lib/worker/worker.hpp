// SPDX-License-Identifier: Apache-2.0
// Reports from a worker to its launcher, and notifications about the job's membership
// (worker/channel/CHANNEL.md). For programs that muster starts; part of libmuster_collective.so.
// Outside muster, every function is a no-op. Thread-safe. Only Rounds::next, preempted() after a
// notice and the first call wait for the launcher. A bool result is true if the report was sent.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace muster::worker {

// Reports this worker's step. Costs two stores to shared memory and one clock read.
void progress(std::uint64_t step);

// Reports a number, such as the loss, under a name of at most 24 letters, digits and characters
// _ . / -. Status shows the latest value. Costs a few accesses to shared memory. One thread at a
// time. False for an invalid name, after eight other names, or without a launcher.
bool number(std::string_view name, double number);

// unhealthy() reports a problem as human-readable text; healthy() withdraws it.
bool unhealthy(std::string_view why);
bool healthy();

// Adds a JSON value to events.jsonl: at most 8 KiB per value and 256 KiB in total. Also returns
// false for invalid JSON.
bool event(std::string_view json);

// Reports that this worker has started work in the current round.
bool ready();

// The round number: the same on all ranks, and increasing. 0 outside muster.
[[nodiscard]] std::uint64_t epoch();

// From now on, epoch() returns this number, and ready() reports it. For a process that continues to
// run when other ranks are replaced.
void continue_in(std::uint64_t epoch);

// Forgets that there was no launcher, in a spare worker that has become a worker.
void start_again();

// Whether muster started this process.
[[nodiscard]] bool started_by_muster();

// Whether this worker was asked to stop.
[[nodiscard]] bool stopping();

// -- preemption: all ranks save at the same step before the job is stopped ----------------------

// Exit code of a worker that has saved after a notice.
inline constexpr int kRequeue = 75;
// preempted() waits for half of the time until the deadline, within these limits, until the
// launcher announces the step. Normally this takes one message to each node.
inline constexpr Duration kDecisionTimeoutMin = std::chrono::seconds(1);
inline constexpr Duration kDecisionTimeoutMax = std::chrono::seconds(30);

// True if this rank must save its state now and exit. Call it in the same steps on all ranks, after
// progress(). All ranks get true from the same step on. If the program never calls progress(), all
// ranks must make the same number of calls. Without a notice, a call costs two loads from shared
// memory. One thread at a time. Always false in a forked child.
[[nodiscard]] bool preempted();

// Time until the workers are killed; empty if there is no notice. True for this rank only: another
// rank may learn of the notice a step later.
[[nodiscard]] std::optional<Duration> deadline();

// Reports that this rank has saved its state as of this step.
bool saved(std::uint64_t step);

// -- the members of the job ---------------------------------------------------------------------

// Consecutive ranks of one node.
struct NodeRanks {
  std::string node;
  int rank = 0;
  int count = 0;
};

// The members of the job in a round.
struct Round {
  std::uint64_t epoch = 0;
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  int group_rank = 0;
  int group_world_size = 1;
  int restarts = 0;
  std::string store_address;
  int store_port = 0;
  std::vector<NodeRanks> left;    // nodes that left, with their ranks in the previous round
  std::vector<NodeRanks> joined;  // new nodes
};

// These ranks of the round have exited.
struct Gone {
  std::uint64_t epoch = 0;
  int rank = 0;
  int count = 1;
  bool failed = true;
  std::string why;
};

// This node's workers must stop; they are killed after `seconds`.
struct Stop {
  double seconds = 0;
  std::string why;
};

// The job will be stopped after `seconds`. preempted() returns true from `step` on; if `step` is
// empty, from the next call on.
struct Preempt {
  std::optional<std::uint64_t> step;
  double seconds = 0;
  std::string why;
};

using News = std::variant<Round, Gone, Stop, Preempt>;

// Delivers the current Round, then each further Gone, Stop, Preempt and Round as it arrives. One
// thread at a time, except that another thread may call ready(), arrive(), finish() and shut_down()
// during next().
class Rounds {
 public:
  Rounds();
  // Subscribes as a process that continues to run when other ranks are replaced. Errors:
  // unreachable, not_possible or closed if muster did not start this process or rejects it.
  [[nodiscard]] static Result<Rounds> continuing();
  ~Rounds();
  Rounds(Rounds&&) noexcept;
  Rounds& operator=(Rounds&&) noexcept;

  // Empty on timeout or if ended() is true.
  [[nodiscard]] std::optional<News> next(Duration timeout);

  // True if there is no launcher, or after the connection was closed.
  [[nodiscard]] bool ended() const;

  // Reports that this process has started work in this round. False if the report was not sent.
  bool ready(std::uint64_t epoch);
  // Reports that this process waits until all ranks have the job's state.
  bool arrive();
  // Reports that this process cannot continue any more if other ranks are replaced.
  bool finish();
  // Ends next() in another thread.
  void shut_down();

 private:
  class Connection;
  explicit Rounds(std::unique_ptr<Connection> connection);

  std::unique_ptr<Connection> connection_;
};

}  // namespace muster::worker
