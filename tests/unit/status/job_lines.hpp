// SPDX-License-Identifier: Apache-2.0
// Lines of events.jsonl for the tests of this room.
#pragma once

#include "status/fold.hpp"

#include <string>
#include <string_view>

namespace muster {

inline std::string line(double time, const std::string& event, int round, std::string_view more) {
  return R"({"v":1,"time":)" + std::to_string(time) + R"(,"event":")" + event +
         R"(","node":"a","round":)" + std::to_string(round) + (more.empty() ? "" : ",") +
         std::string(more) + "}";
}

// "rank" and "local_rank" of a worker.
inline std::string ranks(int rank) {
  const std::string number = std::to_string(rank);
  return R"("rank":)" + number + R"(,"local_rank":)" + number;
}

inline void add(JobStatus& status,
                double time,
                const std::string& event,
                int round,
                std::string_view fields = "") {
  fold_event(status, line(time, event, round, fields));
}

inline void start_workers(JobStatus& status, double time, int round, int count) {
  for (int i = 0; i < count; ++i) {
    add(status, time, "worker_started", round, ranks(i) + ",\"pid\":" + std::to_string(100 + i));
  }
}

constexpr const char* kThreeNodes =
    R"("attempt":0,"restarts":0,"group_rank":0,"rank_first":0,"workers":2,"world_size":6,)"
    R"("nodes":[{"name":"a","address":"10.0.0.1","workers":2},)"
    R"({"name":"b","address":"10.0.0.2","workers":2},{"name":"c","workers":2}])";
constexpr const char* kTwoNodes =
    R"("attempt":1,"restarts":0,"group_rank":0,"rank_first":0,"workers":2,"world_size":4,)"
    R"("nodes":[{"name":"a","workers":2},{"name":"c","workers":2}],"left":["b"],"joined":[])";

// A running job with three nodes.
inline JobStatus running_job() {
  JobStatus status;
  add(status,
      100,
      "job_started",
      0,
      R"("program":"train.py","workers":2,"max_restarts":3,"job":"j","launcher_pid":7)");
  add(status, 100, "round_awaited", 0);
  add(status, 101, "round_begun", 1, kThreeNodes);
  start_workers(status, 102, 1, 2);
  return status;
}

// The same job, which has lost node b and is running again after 4 s.
inline JobStatus regrouped_job() {
  JobStatus status = running_job();
  add(status, 110, "regroup", 1, R"("reason":"node b is silent")");
  add(status, 110, "round_awaited", 1);
  add(status, 110, "workers_signalled", 1, R"("signal":"SIGTERM")");
  for (const int rank : {0, 1}) {
    add(status,
        111,
        "worker_ended",
        1,
        ranks(rank) + R"(,"end":"killed by SIGTERM","exit_code":143,"signal":"SIGTERM")");
  }
  add(status, 114, "round_begun", 2, kTwoNodes);
  start_workers(status, 114, 2, 2);
  return status;
}

}  // namespace muster
