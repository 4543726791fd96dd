// SPDX-License-Identifier: Apache-2.0
// JobServer: serves the job's state over --http, and always over a Unix socket that musterctl finds
// (status/job_socket.hpp). If an address or socket cannot be opened, it prints a warning and the
// job continues. Owned by the agent; lives on its loop. Resource.
#pragma once

#include "agent/agent_setup.hpp"
#include "agent/events/event_stream.hpp"
#include "agent/web/job_site.hpp"
#include "agent/web/owner_site.hpp"
#include "http/server.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace asio {
class io_context;
}

namespace muster {

class JobServer {
 public:
  // Values that are read on demand because no event contains them.
  struct Readings {
    // Bytes of worker output that passed through this process.
    std::function<std::uint64_t()> output_bytes;
    // What the workers do at the moment, by local rank.
    std::function<NodeStats()> stats = nullptr;
    // Writes a line only to stderr, because it may contain the key.
    std::function<void(const std::string&)> show = nullptr;
    OwnerSite::Commands commands = {};
  };

  JobServer(asio::io_context& loop,
            const AgentSetup& setup,
            EventStream& events,
            Readings readings);

  [[nodiscard]] EventSink& sink() { return site_; }

  // See JobSite.
  [[nodiscard]] std::string report_fields(const JobEvent& last) {
    return site_.report_fields(last);
  }

  // Call after all sinks have been added. Error: usage, if the key file cannot be used.
  [[nodiscard]] Result<void> start();

  // Call before the last event. Prints one line if the job has lost work.
  void tell_loss();

  // Call after the last event. Sends as much as possible without blocking.
  void close();

 private:
  [[nodiscard]] MetricsExtra extra() const;
  void open_job_socket();
  void open_http(std::string key);
  void show_url(const std::string& base, const std::string& key);

  asio::io_context& loop_;
  const AgentSetup& setup_;
  EventStream& events_;
  Readings readings_;
  JobSite site_;
  OwnerSite owner_site_{site_, readings_.commands};
  std::optional<HttpServer> job_socket_;
  std::optional<HttpServer> http_;
};

}  // namespace muster
