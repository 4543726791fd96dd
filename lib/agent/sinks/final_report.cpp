// SPDX-License-Identifier: Apache-2.0
#include "agent/sinks/final_report.hpp"

#include "agent/failures/error_file.hpp"
#include "agent/failures/report.hpp"
#include "agent/workers/files.hpp"
#include "base/logger.hpp"

namespace muster {
namespace {

// The report of a multi-node job is the same on all nodes. Launchers that each start one worker
// usually share a console, so only the first launcher on each host prints the report.
bool another_tells(const LaunchConfig& config, const JobResult& result) {
  const bool is_first = !config.task || config.task->local_rank == 0;
  return !is_first && result.outcome == Outcome::failed && result.close && result.overdue.empty() &&
         result.survivors.empty();
}

}  // namespace

void FinalReport::write_error_file(const JobResult& result) const {
  const std::string path = setup_.environ.get("TORCHELASTIC_ERROR_FILE").value_or("");
  if (result.outcome != Outcome::failed || path.empty()) {
    return;
  }
  const auto story = story_of(result, ReportSite{});
  if (!story) {
    return;
  }
  const WorkerFailure& root = story->root;
  // The worker's own file may have been deleted by now.
  const std::string own =
      root.error_file.empty() ? "" : read_some(root.error_file, kErrorFileBytesMax + 1);
  const std::string text = own.empty() ? make_error_file(root, traceback_of(root))
                                       : with_error_code(own, root.status.torchrun_code());
  if (const auto written = write_file(path, text); !written) {
    events_.say(LogLevel::warning, written.error().message);
  }
}

void FinalReport::take(const JobEvent& event) {
  if (const auto* ended = std::get_if<event::JobEnded>(&event.what)) {
    report(*ended, event);
  }
}

void FinalReport::report(const event::JobEnded& ended, const JobEvent& event) const {
  ReportSite site;
  site.node = setup_.hostname;
  site.program = setup_.config.program.name;
  site.logs = ended.logs;
  site.colour = messages_.has_colours();
  const std::string text = render_report(ended.result, site);
  if (text.empty()) {
    return;
  }
  if (!site.logs.empty()) {
    site.fields = fields_(event);
    const std::string json = report_json(ended.result, site);
    if (const auto written = write_file(site.logs + "/report.json", json); !written) {
      events_.say(LogLevel::warning, written.error().message);
    }
  }
  if (!another_tells(setup_.config, ended.result)) {
    logger().write(text);
  }
}

}  // namespace muster
