// SPDX-License-Identifier: Apache-2.0
// JobStatus: the state of the job as one node knows it, built from its events. Created only by
// fold_event, and formatted by the other files in this directory. Value.
#pragma once

#include "status/job_account.hpp"
#include "status/worker_stats.hpp"

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
  waiting,   // waiting for a round
  starting,  // starting the workers of a round
  running,   // all workers on this node were started
  stopping,  // stopping this round's workers, before another round or the end
  finished,  // this node's workers succeeded; other nodes are still running
  ended,     // the job has ended
};

enum class WorkerState { running, dying, succeeded, failed, stopped };
inline constexpr std::array<std::string_view, 5> kWorkerStates{
    "running", "dying", "succeeded", "failed", "stopped"};

// Why a worker failed, as far as its launcher knows. Also used as a metrics label.
inline constexpr std::array<std::string_view, 4> kFailureCauses{
    "exit_code", "signal", "out_of_memory", "not_started"};

struct NodeStatus {
  std::string name;
  std::string address;
  int rank_first = 0;
  int workers = 0;
};

// A worker on this node.
struct WorkerStatus {
  int rank = 0;
  int local_rank = 0;
  std::int64_t pid = 0;
  WorkerState state = WorkerState::running;
  double started = 0;
  double ended = 0;       // 0 while the worker is alive
  std::string end;        // "exited with code 1"
  std::string unhealthy;  // the problem that the worker reported; empty if healthy
  WorkerStats stats;      // not in events; set by the code that serves the status
};

struct FailureStatus {
  double time = 0;
  std::uint64_t round = 0;
  std::string node;
  int rank = -1;  // -1 if the failure is not a worker's
  std::string cause;
  std::string text;
  std::string last_line;  // of the traceback or of the output, if the worker sent no message
};

// One round: its nodes and the workers on this node, from start to end.
struct RoundStatus {
  std::uint64_t number = 0;
  int restarts = 0;
  double begun = 0;
  double ended = 0;  // 0 while the round is running
  int world_size = 0;
  int group_rank = 0;
  std::vector<NodeStatus> nodes;
  std::vector<WorkerStatus> workers;  // on this node, by local rank
  std::string why_ended;
  int failed_rank = -1;  // the rank whose failure ended the round; -1 if none did

  [[nodiscard]] bool is_root(const WorkerStatus& worker) const {
    return worker.rank == failed_rank;
  }
};

// The upper bounds, in seconds, of the histogram buckets for the time between two rounds.
inline constexpr std::array<double, 11> kRegroupBounds{
    0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300};

struct RegroupTimes {
  std::array<std::uint64_t, kRegroupBounds.size() + 1>
      counts{};  // the last count is for times above all bounds
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

// A hang detected by --hang-timeout, from this node's point of view.
struct HangStatus {
  double time = 0;         // time of the verdict
  std::vector<int> ranks;  // the ranks that block the others
  std::string cause;
  std::string text;  // "rank 3: stopped by a signal"
};

// Slow workers that the others wait for: on this node or, on the leader, in the whole job.
struct StragglerStatus {
  double time = 0;  // time of the report
  std::vector<int> ranks;
  std::vector<std::string> nodes;  // multi-node: nodes of the slow ranks
  double share = 0;                // fraction of the job's time that is lost
  std::string text;
};

struct JobStatus {
  // Set by the first event. Unset if the start of the stream was lost.
  std::string job;
  std::string scheduler_job;  // empty without a scheduler
  std::string program;
  std::string version;
  std::string node;  // the node that this status describes
  std::int64_t launcher_pid = 0;
  std::int64_t agent_pid = 0;  // not in events; set by the code that serves the status
  int workers_here = 0;
  int max_restarts = 0;
  std::string http;  // "127.0.0.1:8080"; empty without --http
  std::string logs;

  double started = 0;
  double changed = 0;  // time of the last event
  JobPhase phase = JobPhase::waiting;
  double phase_since = 0;
  std::optional<double> stopping_since;  // from the end of a round until the next one begins
  std::vector<RoundStatus> rounds;  // the most recent rounds; the last element is the current round
  std::uint64_t rounds_count = 0;   // number of rounds started so far
  std::uint64_t restarts = 0;       // restarts of all workers after a failure
  std::uint64_t regroups = 0;       // multi-node: rounds that were replaced by another round
  std::uint64_t nodes_lost = 0;     // multi-node: nodes in one round but not in the next
  std::uint64_t nodes_joined = 0;   // multi-node: nodes in a round but not in the previous one
  std::uint64_t fences = 0;
  std::uint64_t warnings = 0;
  std::map<std::string, std::uint64_t> failures_by_cause;
  std::vector<FailureStatus> failures;  // the most recent failures
  RegroupTimes regroup_times;
  JobAccount account;
  std::optional<RollCallStatus> roll_call;  // while waiting for a round
  std::optional<HangStatus> hang;           // set until the workers make progress or are stopped
  std::uint64_t hangs = 0;
  std::string check;                         // the last event `check` as JSON; empty without
  std::optional<StragglerStatus> straggler;  // set until no worker is slow

  StepChart steps;  // not in events; set by the code that serves the status

  std::string outcome;  // the job's outcome, once it has ended
  std::int64_t exit_code = 0;
  std::string verdict;

  [[nodiscard]] const RoundStatus* round() const {
    return rounds.empty() ? nullptr : &rounds.back();
  }

  // True on rank 0's node.
  [[nodiscard]] bool leads() const { return round() != nullptr && round()->group_rank == 0; }

  [[nodiscard]] bool ready() const { return phase == JobPhase::running; }
};

[[nodiscard]] std::string_view describe(JobPhase phase);

// A unique label for each node of the round. If two launchers run on one host, the second is "host
// (2)".
[[nodiscard]] std::vector<std::string> node_labels(const RoundStatus& round);

[[nodiscard]] inline std::string_view describe(WorkerState state) {
  return kWorkerStates.at(static_cast<std::size_t>(state));
}

}  // namespace muster
