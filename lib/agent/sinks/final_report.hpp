// SPDX-License-Identifier: Apache-2.0
// FinalReport: after the job has ended, prints the report on stderr, writes report.json into the
// log directory, and writes the error file that our own caller requested. A sink for the last
// event. Owned by the agent. Shell around report and error_file.
#pragma once

#include "agent/agent_setup.hpp"
#include "agent/events/event_stream.hpp"
#include "agent/failures/job_result.hpp"
#include "agent/sinks/messages.hpp"

#include <functional>
#include <string>
#include <utility>

namespace muster {

class FinalReport final : public EventSink {
 public:
  // Returns further fields of report.json as a JSON object. Receives the last event.
  using Fields = std::function<std::string(const JobEvent& last)>;

  FinalReport(const AgentSetup& setup, EventStream& events, Messages& messages, Fields fields)
      : setup_(setup), events_(events), messages_(messages), fields_(std::move(fields)) {}

  void take(const JobEvent& event) override;

  // Writes the error file that our caller requested with TORCHELASTIC_ERROR_FILE, as torchrun does.
  // Call before the run directory is cleaned up, because the content may come from a worker's error
  // file in that directory.
  void write_error_file(const JobResult& result) const;

 private:
  void report(const event::JobEnded& ended, const JobEvent& event) const;

  const AgentSetup& setup_;
  EventStream& events_;
  Messages& messages_;
  Fields fields_;
};

}  // namespace muster
