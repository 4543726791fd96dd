// SPDX-License-Identifier: Apache-2.0
// NodeHistoryFile: the sink that appends suspected nodes to the file of --node-history, and the
// reader of this file. Several jobs may use one file, usually on a shared file system. Errors are
// reported once, and the job continues. Owned by the agent. Shell around failures/node_history.
#pragma once

#include "agent/agent_setup.hpp"
#include "agent/events/event_stream.hpp"
#include "base/time.hpp"

namespace muster {

class NodeHistoryFile final : public EventSink {
 public:
  NodeHistoryFile(const AgentSetup& setup, EventStream& events) : setup_(setup), events_(events) {}

  void take(const JobEvent& event) override;

  // For how long this node is a last resort, because the file lists it.
  [[nodiscard]] Duration reserve_here(double unix_now);

 private:
  void warn(const std::string& text);

  const AgentSetup& setup_;
  EventStream& events_;
  bool has_warned_ = false;
};

}  // namespace muster
