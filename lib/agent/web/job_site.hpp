// SPDX-License-Identifier: Apache-2.0
// JobSite: what the launcher answers about its job over HTTP. Takes the events like any other sink,
// but makes nothing of them until somebody asks. Owned by JobServer. No sockets; one thread.
#pragma once

#include "agent/events/event_stream.hpp"
#include "http/site.hpp"
#include "status/job_status.hpp"
#include "status/metrics.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace muster {

// Events that nobody has asked for wait as values, so many at most.
inline constexpr std::size_t kEventsUnfoldedMax = 256;
// Of the lines that are kept for event streams; the oldest go first.
inline constexpr std::size_t kEventLinesBytesMax = std::size_t{1} << 20;

class JobSite final : public EventSink, public HttpSite {
 public:
  struct Means {
    std::function<double()> wall_seconds;
    // What is no event; asked for each answer that needs it.
    std::function<MetricsExtra()> extra;
    // The step that each worker has reported last, by local rank. May be empty: nobody knows.
    std::function<std::vector<std::optional<std::uint64_t>>()> steps;
    // How long each worker has waited for others, by local rank. May be empty.
    std::function<std::vector<std::optional<WaitStatus>>()> waits;
    // There are events that open streams have not had.
    std::function<void()> events_came;
  };

  // `run` tells this job's event numbers from those of another one that had the same port.
  JobSite(std::string run, std::int64_t pid, Means means);

  // EventSink
  void take(const JobEvent& event) override;

  // HttpSite
  [[nodiscard]] HttpResponse answer(const HttpRequest& request) override;
  [[nodiscard]] std::string events_from(std::uint64_t& cursor) override;
  [[nodiscard]] bool events_over() const override;

 private:
  void fold_all();
  void read_workers();
  [[nodiscard]] HttpResponse readiness();
  [[nodiscard]] HttpResponse events(const HttpRequest& request);

  std::string run_;
  Means means_;
  JobStatus status_;
  std::vector<JobEvent> unfolded_;
  std::deque<std::string> lines_;  // as events.jsonl has them
  std::size_t lines_bytes_ = 0;
  std::uint64_t lines_gone_ = 0;  // number of the first line that is kept
};

}  // namespace muster
