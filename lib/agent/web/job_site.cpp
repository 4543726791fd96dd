// SPDX-License-Identifier: Apache-2.0
#include "agent/web/job_site.hpp"

#include "agent/events/event_text.hpp"
#include "agent/web/page.hpp"
#include "base/text.hpp"
#include "status/fold.hpp"
#include "status/fold_account.hpp"
#include "status/job_report.hpp"
#include "status/status_json.hpp"
#include "status/timeline.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace muster {
namespace {

constexpr std::size_t kStreamPartBytes = std::size_t{32} * 1024;

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kMetrics = "text/plain; version=0.0.4; charset=utf-8";
constexpr std::string_view kEventStreamType = "text/event-stream";
constexpr std::string_view kSvg = "image/svg+xml";

HttpResponse response_of(std::string_view type, std::string text) {
  HttpResponse out;
  out.type = type;
  out.body = std::make_shared<const std::string>(std::move(text));
  return out;
}

// The value of a parameter in "follow=0&last=200"; empty if it is not there.
std::string_view parameter(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view one = query.substr(0, query.find('&'));
    if (one.size() > name.size() && one.starts_with(name) && one[name.size()] == '=') {
      return one.substr(name.size() + 1);
    }
    query.remove_prefix(std::min(query.size(), one.size() + 1));
  }
  return {};
}

}  // namespace

JobSite::JobSite(std::string run, std::int64_t pid, Means means)
    : run_(std::move(run)), means_(std::move(means)) {
  status_.agent_pid = pid;
}

void JobSite::take(const JobEvent& event) {
  unfolded_.push_back(event);
  if (unfolded_.size() >= kEventsUnfoldedMax) {
    fold_all();
  }
  means_.events_came();
}

void JobSite::fold_all() {
  for (const JobEvent& event : std::exchange(unfolded_, {})) {
    std::string line = event_json(event);
    fold_event(status_, line);
    lines_bytes_ += line.size();
    lines_.push_back(std::move(line));
    while (lines_bytes_ > kEventLinesBytesMax && lines_.size() > 1) {
      lines_bytes_ -= lines_.front().size();
      lines_.pop_front();
      ++lines_gone_;
    }
  }
}

TimeSpent JobSite::spent() {
  fold_all();
  return spent_until(status_, means_.wall_seconds());
}

std::string JobSite::report_fields(const JobEvent& last) {
  fold_all();
  JobStatus status = status_;
  fold_event(status, event_json(last));
  return report_fields_json(status);
}

// Reads the data about workers that no event contains.
void JobSite::read_workers() {
  if (status_.rounds.empty()) {
    return;
  }
  NodeStats stats = means_.stats ? means_.stats() : NodeStats{};
  for (WorkerStatus& worker : status_.rounds.back().workers) {
    const auto at = static_cast<std::size_t>(worker.local_rank);
    worker.stats = at < stats.workers.size() ? std::move(stats.workers[at]) : WorkerStats{};
  }
  status_.steps = std::move(stats.steps);
}

HttpResponse JobSite::answer(const HttpRequest& request) {
  fold_all();
  const std::string& path = request.path;
  if (const PageFile* file = page_file(path)) {
    return response_of(file->type, std::string(file->text));
  }
  if (path == "/healthz") {
    return plain_response(200, "ok");
  }
  if (path == "/readyz") {
    return readiness();
  }
  if (path == "/metrics") {
    read_workers();
    return response_of(kMetrics, metrics_text(status_, means_.extra()));
  }
  if (path == "/v1/status") {
    read_workers();
    return response_of(kJson, status_json(status_, means_.wall_seconds()));
  }
  if (path == "/v1/events") {
    return events(request);
  }
  if (path == "/v1/timeline.svg") {
    return response_of(kSvg, timeline_svg(status_, means_.wall_seconds()));
  }
  return plain_response(
      404, "try /, /healthz, /readyz, /metrics, /v1/status, /v1/events or /v1/timeline.svg");
}

HttpResponse JobSite::readiness() {
  return plain_response(status_.ready() ? 200 : 503, describe(status_.phase));
}

// "2b7e1516-17" requests the events after event 17 of this run. Ids from other runs are ignored.
// "last=200" requests at most 200 of the events so far.
HttpResponse JobSite::events(const HttpRequest& request) {
  HttpResponse out;
  out.type = kEventStreamType;
  out.events = true;
  out.follow = parameter(request.query, "follow") != "0";
  out.cursor = lines_gone_;
  if (const auto last = parse_int(parameter(request.query, "last")); last && *last >= 0) {
    const auto kept = static_cast<std::uint64_t>(lines_.size());
    out.cursor += kept - std::min(kept, static_cast<std::uint64_t>(*last));
  }
  if (request.last_event_id.starts_with(run_ + "-")) {
    const auto seen = parse_int(std::string_view(request.last_event_id).substr(run_.size() + 1));
    if (seen && *seen >= 0 && std::cmp_less(*seen, lines_gone_ + lines_.size())) {
      out.cursor = static_cast<std::uint64_t>(*seen) + 1;
    }
  }
  return out;
}

std::string JobSite::events_from(std::uint64_t& cursor) {
  fold_all();
  std::string out;
  cursor = std::max(cursor, lines_gone_);
  while (cursor - lines_gone_ < lines_.size() && out.size() < kStreamPartBytes) {
    const std::string& line = lines_[static_cast<std::size_t>(cursor - lines_gone_)];
    out += fmt::format("id: {}-{}\ndata: {}\n", run_, cursor, line);  // `line` ends in one \n
    ++cursor;
  }
  return out;
}

bool JobSite::events_over() const {
  return status_.phase == JobPhase::ended;
}

}  // namespace muster
