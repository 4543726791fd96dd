// SPDX-License-Identifier: Apache-2.0
// Inspection: one look at what the workers of this node do: their processes and stacks, each
// thread's CPU time between two looks, their collective operations. Nothing waits: stacks come from
// children that are bounded in time, and no worker is stopped for longer than some milliseconds.
// Lives on the loop's thread. Resource.
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

// Of all stacks together: then the evidence is what is there.
inline constexpr Duration kInspectionMax = std::chrono::seconds(25);

struct InspectionTools {
  std::string py_spy = "py-spy";         // a path, or a name for PATH
  std::vector<std::string> environment;  // of the programs that show stacks
  std::function<std::vector<collective::FlightLog>()> read_recorders;  // of the workers
};

class Inspection {
 public:
  using Done = std::function<void(Evidence)>;

  Inspection(asio::io_context& loop, InspectionTools tools);

  // Adds what is seen to `evidence`, which has what is known of the ranks. `pids` are their
  // workers' in the same order, 0 for one that has ended. `done` is called later, once, and after
  // `within` at the latest, but not before there are two looks. What was begun before is dropped.
  void begin(Evidence evidence, std::vector<pid_t> pids, Duration within, Done done);

  // Ranks that print lines because of what begin() asked them.
  [[nodiscard]] const std::set<int>& loud() const { return torch_recorders_.loud(); }

  // Nothing is called any more.
  void cancel();

 private:
  using Step = void (Inspection::*)();
  void after(Duration delay, Step step);
  void window_is_over();
  void time_is_up();
  void conclude_if_all_there();
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
  std::shared_ptr<int> alive_;  // callbacks of before are passed over
};

}  // namespace muster::hang
