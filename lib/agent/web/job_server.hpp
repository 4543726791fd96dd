// SPDX-License-Identifier: Apache-2.0
// JobServer: lets others see the job: over --http, and always over a Unix socket that musterctl
// finds (status/job_socket.hpp). An address or socket that cannot be opened is a warning; the job
// goes on. Owned by the agent; lives on its loop. Resource.
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
  // What is asked for when somebody asks for it, and is no event.
  struct Readings {
    // Bytes that workers wrote and that went through this process.
    std::function<std::uint64_t()> output_bytes;
    // The step that each worker has reported last, by local rank; none: no worker can.
    std::function<std::vector<std::optional<std::uint64_t>>()> steps = nullptr;
    // How long each worker has waited for others, by local rank.
    std::function<std::vector<std::optional<WaitStatus>>()> waits = nullptr;
    // Writes a line to standard error and to nothing else: it may hold the key.
    std::function<void(const std::string&)> show = nullptr;
    // Of musterctl forget: empty if done, else the reason why not.
    OwnerSite::Forget forget = nullptr;
  };

  JobServer(asio::io_context& loop,
            const AgentSetup& setup,
            EventStream& events,
            Readings readings);

  [[nodiscard]] EventSink& sink() { return site_; }

  // Once all sinks are there. Error: usage, if the key file cannot be used.
  [[nodiscard]] Result<void> start();

  // After the last event: what can be sent at once is sent.
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
  OwnerSite owner_site_{site_, readings_.forget};
  std::optional<HttpServer> job_socket_;
  std::optional<HttpServer> http_;
};

}  // namespace muster
