// SPDX-License-Identifier: Apache-2.0
// check: makes the launchers of a running job measure and compare their nodes, and prints the
// verdict, which arrives as an event.
#include "base/clock.hpp"
#include "check/check_json.hpp"
#include "check/verdict_text.hpp"
#include "choose_job.hpp"
#include "commands.hpp"
#include "status/job_socket.hpp"
#include "status/json.hpp"

#include <fmt/core.h>

#include <string>

namespace muster {
namespace {

// The launchers give up after 5 s.
constexpr Duration kVerdictTimeout = std::chrono::seconds(10);

// The line of the first event `check`.
Result<std::string> await_verdict(HttpStream& events, TimePoint deadline) {
  EventLines parts;
  while (true) {
    const auto part = events.read_some(deadline);
    MUSTER_RETURN_IF_ERROR(part);
    if (part->empty()) {
      return failure(Errc::not_possible, "the job ended during the check");
    }
    const auto lines = parts.feed(*part);
    MUSTER_RETURN_IF_ERROR(lines);
    for (std::size_t at = 0; at < lines->size();) {
      const auto end = lines->find('\n', at) + 1;
      std::string line = lines->substr(at, end - at);
      if (text_of(parse_json(line), "event") == "check") {
        return line;
      }
      at = end;
    }
  }
}

}  // namespace

Result<int> run_check(const ControlOptions& options) {
  const auto job = find_job(options);
  MUSTER_RETURN_IF_ERROR(job);
  const Duration timeout = options.timeout_given ? options.timeout : kVerdictTimeout;
  const TimePoint deadline = steady_now() + timeout;
  auto events = job->source.ask("/v1/events?last=0", deadline);
  MUSTER_RETURN_IF_ERROR(events);
  const auto refused = job->source.get(std::string(kJobCheckPath), timeout);
  MUSTER_RETURN_IF_ERROR(refused);
  if (!refused->empty()) {
    return failure(Errc::not_possible, "cannot check the nodes: " + *refused);
  }
  const auto line = await_verdict(*events, deadline);
  if (!line && line.error().code == Errc::timed_out) {
    return failure(Errc::timed_out,
                   fmt::format("no verdict within {}: the job may be waiting for a node; see "
                               "musterctl status",
                               describe(timeout)));
  }
  MUSTER_RETURN_IF_ERROR(line);
  const check::Verdict verdict = check::decode_verdict(*line);
  print(options.json ? *line : check::verdict_text(verdict));
  return verdict.findings.empty() && verdict.more_findings == 0 ? 0 : kExitDefects;
}

}  // namespace muster
