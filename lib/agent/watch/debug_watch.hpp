// SPDX-License-Identifier: Apache-2.0
// DebugWatch: knows which ranks on this node are being debugged, so that hang timeouts pause.
// Sources are the open requests of musterctl debug, and the clients of debugpy (--debug). Prints
// where debugpy listens. An event sink. Owned by the agent; one thread.
#pragma once

#include "agent/agent_setup.hpp"
#include "agent/events/event_stream.hpp"
#include "agent/workers/run_folder.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace muster {

class DebugWatch final : public EventSink {
 public:
  // `show` prints a line to stderr.
  DebugWatch(const AgentSetup& setup,
             const AgentRunFolder& folder,
             std::function<void(const std::string&)> show)
      : setup_(setup), folder_(folder), show_(std::move(show)) {}

  // EventSink
  void take(const JobEvent& event) override;

  // For musterctl debug: the rank counts as being debugged until the result is destroyed. Null if
  // no worker on this node has this rank.
  [[nodiscard]] std::shared_ptr<void> begin(int rank);

  // The ranks to which a debugger is attached, or that wait for one. `steps`: the last step of each
  // worker, by local rank.
  [[nodiscard]] std::set<int> ranks(const std::vector<std::optional<std::uint64_t>>& steps);

 private:
  struct DebuggedWorker {
    int local_rank = 0;
    std::uint16_t port = 0;  // of debugpy; 0 without it
    bool waits = false;      // for the first client of debugpy
  };

  void worker_started(const event::WorkerStarted& started);
  [[nodiscard]] bool is_served(DebuggedWorker& worker,
                               const std::vector<std::optional<std::uint64_t>>& steps) const;

  const AgentSetup& setup_;
  const AgentRunFolder& folder_;
  std::function<void(const std::string&)> show_;
  std::map<int, DebuggedWorker> workers_;  // running, by rank
  // The ranks in open requests. Shared with the requests, which may outlive this object.
  std::shared_ptr<std::multiset<int>> requested_ = std::make_shared<std::multiset<int>>();
};

}  // namespace muster
