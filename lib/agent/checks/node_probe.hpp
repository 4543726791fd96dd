// SPDX-License-Identifier: Apache-2.0
// NodeProbe: measures this node for --check in a child process (check/probe/measure_node.hpp).
// Owned by CheckControl; lives on the agent's loop. Resource: the child process is killed when it
// is destroyed.
#pragma once

#include "agent/agent_setup.hpp"
#include "base/environ.hpp"
#include "base/error.hpp"
#include "base/time.hpp"
#include "check/figures.hpp"
#include "check/probe/link_probe.hpp"
#include "process/start/helper_process.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <sys/types.h>

namespace asio {
class io_context;
}

namespace muster {

// The child process is killed after this time. The figures that it has measured by then count.
inline constexpr Duration kProbeTimeout = std::chrono::seconds(3);

// The same for the links: check::kLinksTime and the start of the process.
inline constexpr Duration kLinksTimeout = std::chrono::milliseconds(1800);

class NodeProbe {
 public:
  // Calls `started` with the child's pid, because it is no leftover of a worker.
  NodeProbe(asio::io_context& loop, const AgentSetup& setup, std::function<void(pid_t)> started)
      : loop_(loop), setup_(setup), started_(std::move(started)) {}

  // Measures unless a measurement is running. `done` is called when `figures` has been set. While
  // workers run, measures only what does not disturb them.
  void run(bool workers_run, const std::function<void()>& done);

  // Empty until the first measurement is complete.
  [[nodiscard]] const std::optional<check::NodeFigures>& figures() const { return figures_; }

  // Ends a running measurement.
  void forget() {
    child_.reset();
    figures_.reset();
  }

  // Measures the links of this node to others. Calls `done` with the result.
  void run_links(const check::LinkPlan& plan,
                 std::function<void(const check::NodeFigures& links)> done);

 private:
  asio::io_context& loop_;
  const AgentSetup& setup_;
  std::function<void(pid_t)> started_;
  [[nodiscard]] Result<void> start_child(const Environ& environ,
                                         Duration timeout,
                                         std::function<void(const std::string& printed)> done);

  std::unique_ptr<HelperProcess> child_;
  std::optional<check::NodeFigures> figures_;
};

}  // namespace muster
