// SPDX-License-Identifier: Apache-2.0
// Inspection: one pass over the workers of this node. It collects their processes and stacks, each
// thread's CPU time between two samples, and their collective operations. It never blocks: stacks
// come from child processes with time limits. No worker is stopped for longer than a few
// milliseconds. Runs on the loop's thread. Resource.
#pragma once

#include "base/time.hpp"
#include "collective/recorder/flight_recorder.hpp"
#include "hang/evidence.hpp"
#include "hang/gather/proc_evidence.hpp"
#include "hang/gather/stack_collector.hpp"
#include "hang/gather/torch_recorders.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

namespace muster::hang {

// Time limit for all stacks together. Stacks that arrive later are dropped.
inline constexpr Duration kInspectionMax = std::chrono::seconds(25);

struct InspectionTools {
  std::string py_spy = "py-spy";         // path of py-spy, or a name to look up in PATH
  std::vector<std::string> environment;  // environment of the stack dumpers
  std::function<std::vector<collective::FlightLog>()>
      read_recorders;  // the workers' flight recorders
};

class Inspection {
 public:
  using Done = std::function<void(Evidence)>;

  Inspection(asio::io_context& loop, InspectionTools tools);

  // Adds its findings to `evidence`, which must already list the ranks. `pids` contains the pid of
  // each rank's worker, in the same order; 0 for a worker that has exited. Calls `done` once,
  // asynchronously: when the inspection is complete, or after `within` at the latest. Discards an
  // earlier inspection.
  void begin(Evidence evidence, std::vector<pid_t> pids, Duration within, Done done);

  // Ranks that log lines because begin() has queried them.
  [[nodiscard]] const std::set<int>& loud() const { return torch_recorders_.loud(); }

  // Stops the inspection without calling its callback.
  void cancel();

 private:
  using Step = void (Inspection::*)();
  void after(Duration delay, Step step);
  void window_is_over();
  void time_is_up();
  void conclude();
  void add_positions();

  InspectionTools tools_;
  StackCollector collector_;
  TorchRecorders torch_recorders_;
  asio::steady_timer timer_;
  Evidence evidence_;
  std::vector<pid_t> pids_;
  Duration within_{};
  Done done_;
  std::map<pid_t, ThreadUse> before_;
  TimePoint before_at_{};
  bool stacks_there_ = false;
  bool torch_there_ = false;
  bool window_over_ = false;
  std::shared_ptr<int> alive_;  // stale callbacks are ignored
};

}  // namespace muster::hang
