// SPDX-License-Identifier: Apache-2.0
// JobStatus: what one node knows of its job, as the events that it has told add up to. Made by
// fold_event and by nothing else; rendered by the other files of this room. Value.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

enum class JobPhase {
  waiting,   // for a round
  starting,  // the workers of a round
  running,   // all workers of this node were started
  stopping,  // this round's workers, for another round or the end
  finished,  // this node's workers ended well; other nodes still run
  ended,     // the job
};

enum class WorkerState { running, dying, succeeded, failed, stopped };
inline constexpr std::array<std::string_view, 5> kWorkerStates{
    "running", "dying", "succeeded", "failed", "stopped"};

// Why a worker failed, as far as its launcher can tell; also a label of the metrics.
inline constexpr std::array<std::string_view, 4> kFailureCauses{
    "exit_code", "signal", "out_of_memory", "not_started"};

struct NodeStatus {
  std::string name;
  std::string address;
  int rank_first = 0;
  int workers = 0;
};

// How long a worker has waited for others in operations of the collective library.
struct WaitStatus {
  double share = 0;    // of the last steps' time
  double seconds = 0;  // since it was started
};

// A worker of this node.
struct WorkerStatus {
  int rank = 0;
  int local_rank = 0;
  std::int64_t pid = 0;
  WorkerState state = WorkerState::running;
  double started = 0;
  double ended = 0;       // 0: it lives
  std::string end;        // "exited with code 1"
  std::string unhealthy;  // what it says is wrong with it; empty: nothing
  // Training step, as the worker reports it; not in events: whoever serves the status sets it.
  std::optional<std::uint64_t> step;
  std::optional<WaitStatus> waits;  // the same
};

struct FailureStatus {
  double time = 0;
  std::uint64_t round = 0;
  std::string node;
  int rank = -1;  // -1: no worker's
  std::string cause;
  std::string text;
};

// One membership and its workers, from their start to their end.
struct RoundStatus {
  std::uint64_t number = 0;
  int restarts = 0;
  double begun = 0;
  double ended = 0;  // 0: it goes on
  int world_size = 0;
  int group_rank = 0;
  std::vector<NodeStatus> nodes;
  std::vector<WorkerStatus> workers;  // of this node, by local rank
  std::string why_ended;
};

// Upper bounds, in seconds, of the histogram of times between two rounds.
inline constexpr std::array<double, 11> kRegroupBounds{
    0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300};

struct RegroupTimes {
  std::array<std::uint64_t, kRegroupBounds.size() + 1> counts{};  // the last one: longer
  double sum = 0;
};

struct RollCallStatus {
  std::int64_t present = 0;
  std::int64_t needed = 0;
  std::vector<std::string> nodes;
  std::vector<std::string> awaited;
  std::vector<std::string> refused;
  std::string trouble;
};

// Of --hang-timeout, as this node sees it.
struct HangStatus {
  double time = 0;         // of the verdict
  std::vector<int> ranks;  // they hold up the others
  std::string cause;
  std::string text;  // "rank 3: stopped by a signal"
};

// Workers for which the others wait: of this node; of many nodes, as the one that leads sees it.
struct StragglerStatus {
  double time = 0;  // when they were named
  std::vector<int> ranks;
  std::vector<std::string> nodes;  // of many: where they are
  double share = 0;                // of the job's time, that is lost
  std::string text;
};

struct JobStatus {
  // Told by the first event; a picture without it is of a stream whose beginning was lost.
  std::string job;
  std::string program;
  std::string version;
  std::string node;  // whose picture this is
  std::int64_t launcher_pid = 0;
  std::int64_t agent_pid = 0;  // not in events: whoever serves the status sets it
  int workers_here = 0;
  int max_restarts = 0;
  std::string http;  // "127.0.0.1:8080"; empty where nothing listens
  std::string logs;

  double started = 0;
  double changed = 0;  // time of the last event
  JobPhase phase = JobPhase::waiting;
  double phase_since = 0;
  std::optional<double> stopping_since;  // a round ended; until the next one begins
  std::vector<RoundStatus> rounds;       // the last ones; the newest is the current one
  std::uint64_t rounds_count = 0;        // all that began
  std::uint64_t restarts = 0;            // of all workers, after a failure
  std::uint64_t regroups = 0;            // many nodes: rounds that ended for another one
  std::uint64_t nodes_lost = 0;          // many nodes: in one round and not in the next
  std::uint64_t nodes_joined = 0;        // the other way round
  std::uint64_t fences = 0;
  std::uint64_t warnings = 0;
  std::map<std::string, std::uint64_t> failures_by_cause;
  std::vector<FailureStatus> failures;  // the last ones
  RegroupTimes regroup_times;
  std::optional<RollCallStatus> roll_call;  // while a round is waited for
  std::optional<HangStatus> hang;           // until the workers go on, or are stopped
  std::uint64_t hangs = 0;
  std::optional<StragglerStatus> straggler;  // until it is over

  std::string outcome;  // of the job, once it has ended
  std::int64_t exit_code = 0;
  std::string verdict;

  [[nodiscard]] const RoundStatus* round() const {
    return rounds.empty() ? nullptr : &rounds.back();
  }

  // Node of rank 0.
  [[nodiscard]] bool leads() const { return round() != nullptr && round()->group_rank == 0; }

  [[nodiscard]] bool ready() const { return phase == JobPhase::running; }
};

[[nodiscard]] std::string_view describe(JobPhase phase);

// A name for each node of the round that is its own: of two launchers on one machine the second is
// "host (2)".
[[nodiscard]] std::vector<std::string> node_labels(const RoundStatus& round);

[[nodiscard]] inline std::string_view describe(WorkerState state) {
  return kWorkerStates.at(static_cast<std::size_t>(state));
}

}  // namespace muster
