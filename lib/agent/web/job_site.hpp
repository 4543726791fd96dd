// SPDX-License-Identifier: Apache-2.0
// JobSite: answers HTTP requests about the job. Receives events like any other sink, but processes
// them only when a request needs them. Owned by JobServer. No sockets; one thread.
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

// The maximum number of events that are queued before they are processed.
inline constexpr std::size_t kEventsUnfoldedMax = 256;
// The maximum size of the lines kept for event streams, in bytes. The oldest lines are dropped
// first.
inline constexpr std::size_t kEventLinesBytesMax = std::size_t{1} << 20;

class JobSite final : public EventSink, public HttpSite {
 public:
  struct Means {
    std::function<double()> wall_seconds;
    // Values that no event contains; called for each response that needs them.
    std::function<MetricsExtra()> extra;
    // What the workers do at the moment, by local rank. May be empty if unknown.
    std::function<NodeStats()> stats;
    // Notifies open streams that new events are available.
    std::function<void()> events_came;
  };

  // `run` distinguishes this job's event ids from those of another job that used the same port.
  JobSite(std::string run, std::int64_t pid, Means means);

  // EventSink
  void take(const JobEvent& event) override;

  // What the time of this run was used for so far.
  [[nodiscard]] TimeSpent spent();

  // The fields of report.json that come from the status after the last event, which take() has not
  // received yet: a JSON object with `check` and `account`.
  [[nodiscard]] std::string report_fields(const JobEvent& last);

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
  std::deque<std::string> lines_;  // in the format of events.jsonl
  std::size_t lines_bytes_ = 0;
  std::uint64_t lines_gone_ = 0;  // number of the first kept line
};

}  // namespace muster
