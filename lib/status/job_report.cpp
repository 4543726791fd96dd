// SPDX-License-Identifier: Apache-2.0
#include "status/job_report.hpp"

#include "base/clock.hpp"
#include "base/plural.hpp"
#include "base/printable.hpp"
#include "status/fold_account.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace muster {
namespace {

constexpr Micros kSecond = 1'000'000;
constexpr Micros kMinute = 60 * kSecond;
constexpr Micros kHour = 60 * kMinute;
constexpr double kPercent = 100;

// The exit code of a preempted job, and of a worker that asks for another start (EX_TEMPFAIL).
constexpr std::int64_t kRunAgainCode = 75;

// The id of a job without the number of its requeue: slurm-4711-r2 continues slurm-4711.
std::string_view base_id(std::string_view job) {
  const auto at = job.rfind("-r");
  const bool is_requeue = job.starts_with("slurm-") && at != std::string_view::npos &&
                          at + 2 < job.size() &&
                          job.find_first_not_of("0123456789", at + 2) == std::string_view::npos;
  return is_requeue ? job.substr(0, at) : job;
}

// All jobs that were started without --rdzv-id may have the same id.
bool is_same_job(const JobRun& one, const JobRun& other) {
  return !one.job.empty() && one.job != "none" && base_id(one.job) == base_id(other.job) &&
         one.program == other.program;
}

// Users often give the same --rdzv-id to unrelated jobs. Without a scheduler's id, only runs
// continue that asked for another start or whose launcher was killed.
bool may_go_on(const JobStatus& status) {
  const bool was_killed = status.outcome.empty();
  const bool has_failed = status.outcome != "succeeded" && !status.scheduler_job.empty();
  return was_killed || has_failed || status.exit_code == kRunAgainCode;
}

std::string describe_micros(Micros time) {
  if (time < kMinute) {
    return fmt::format("{:.2f} s", static_cast<double>(time) / kSecond);
  }
  if (time < kHour) {
    return fmt::format("{} min {} s", time / kMinute, time / kSecond % 60);
  }
  return fmt::format("{} h {} min", time / kHour, time / kMinute % 60);
}

Micros micros_in(const Json& object, const std::string& name) {
  return std::max<std::int64_t>(0, number_of(object, name.c_str()));
}

std::string row_of(const Json& account, std::string_view use) {
  const Json& value = field(account, (std::string(use) + "_us").c_str());
  if (!value.is_number_integer()) {
    return fmt::format("  {:<9} {:>13}\n", use, "unknown");
  }
  const Micros time = std::max<std::int64_t>(0, value.get<std::int64_t>());
  const auto total = static_cast<double>(std::max<Micros>(1, micros_in(account, "total_us")));
  return fmt::format("  {:<9} {:>13} {:>7.1f} %\n",
                     use,
                     describe_micros(time),
                     kPercent * static_cast<double>(time) / total);
}

std::string goodput_line(const Json& account) {
  const Json& goodput = field(account, "goodput");
  if (goodput.is_number()) {
    return fmt::format("goodput: {:.1f} % of the time was work that was kept\n",
                       kPercent * std::clamp(goodput.get<double>(), 0.0, 1.0));
  }
  const auto total = static_cast<double>(std::max<Micros>(1, micros_in(account, "total_us")));
  return fmt::format(
      "goodput: at most {:.1f} %. Work was thrown away, but the program reports no "
      "saves (muster.worker.saved)\n",
      kPercent * static_cast<double>(micros_in(account, "running_us")) / total);
}

std::string account_text(const Json& account) {
  if (!account.is_object()) {
    return "the use of the time is unknown: no events.jsonl\n";
  }
  std::string out = "time of the job:\n";
  for (const std::string_view use : kTimeUses) {
    out += row_of(account, use);
  }
  return out + row_of(account, "total") + goodput_line(account);
}

std::string run_line(const Json& run) {
  const std::string outcome = printable(text_of(run, "outcome"));
  return fmt::format("  {}  on {}, {}, {}\n",
                     describe_wall_time(seconds_of(run, "begun")),
                     printable(text_of(run, "node")),
                     describe_micros(micros_in(run, "total_us")),
                     outcome.empty() ? "no end reported" : outcome);
}

// A report on a running job has a phase.
std::string end_of(const Json& report) {
  const std::string phase = printable(text_of(report, "phase"));
  const std::string outcome = printable(text_of(report, "outcome"));
  if (!phase.empty() && phase != "ended") {
    return phase;
  }
  if (outcome.empty()) {
    return "no end reported";
  }
  const std::string verdict = printable(text_of(report, "verdict"));
  return fmt::format("{} with exit code {}{}{}",
                     outcome,
                     number_of(report, "exit_code"),
                     verdict.empty() ? "" : "; ",
                     verdict);
}

std::string head_line(const Json& report) {
  const std::string program = printable(text_of(report, "program"));
  return fmt::format("{} on {}: {}\n",
                     program.substr(program.find_last_of('/') + 1),
                     printable(text_of(report, "node")),
                     end_of(report));
}

std::string cause_line(const Json& report) {
  const Json& root = field(report, "root_cause");
  if (!root.is_object()) {
    return "";
  }
  return fmt::format("rank {} on {}: {}\n",
                     number_of(root, "rank"),
                     printable(text_of(root, "node")),
                     printable(text_of(root, "end")));
}

// The defects that --check or musterctl check found.
std::string defect_lines(const Json& report) {
  constexpr std::size_t kDefectsShownMax = 20;
  const Json& findings = field(field(report, "check"), "findings");
  std::string out;
  std::size_t shown = 0;
  for (const Json& finding : findings.is_array() ? findings : Json::array()) {
    if (shown++ < kDefectsShownMax) {
      out += fmt::format("check: {}: {}\n",
                         printable(text_of(finding, "node")),
                         printable(text_of(finding, "text")));
    }
  }
  return out;
}

}  // namespace

JobRun run_of(const JobStatus& status) {
  return {status.scheduler_job.empty() ? status.job : status.scheduler_job,
          status.program,
          status.node,
          status.outcome,
          may_go_on(status),
          status.leads(),
          status.account.time};
}

std::vector<JobRun> runs_of_job(std::vector<JobRun> others, JobRun newest) {
  std::vector<JobRun> runs{std::move(newest)};
  std::ranges::sort(
      others, std::ranges::greater{}, [](const auto& run) { return run.time.begun(); });
  for (JobRun& run : others) {
    JobRun& next = runs.back();
    if (!is_same_job(run, next)) {
      continue;
    }
    if (run.time.now() > next.time.begun()) {
      if (run.leads && !next.leads) {
        next = std::move(run);
      }
    } else if (!run.may_go_on || runs.size() >= kRunsReportedMax) {
      break;
    } else {
      runs.push_back(std::move(run));
    }
  }
  std::ranges::reverse(runs);
  return runs;
}

TimeSpent spent_in(const std::vector<JobRun>& runs) {
  TimeSpent out;
  Micros end = 0;
  for (const JobRun& run : runs) {
    TimeAccount time = run.time;
    if (&run != &runs.back() && run.outcome.empty()) {
      time.discard();  // the launcher was killed
    }
    if (end != 0) {
      // The clocks of two hosts may differ.
      out.add(TimeUse::waiting, std::max<Micros>(0, time.begun() - end));
    }
    out.add(time.spent());
    end = time.now();
  }
  return out;
}

std::string report_fields_json(const JobStatus& status) {
  return dump_json(Json{{"check", parse_json(status.check)},
                        {"account", account_json(spent_until(status, status.changed))}});
}

void add_runs(Json& report, const std::vector<JobRun>& runs) {
  report["account"] = account_json(spent_in(runs));
  report["runs"] = Json::array();
  for (const JobRun& run : runs) {
    report["runs"].push_back({{"job", run.job},
                              {"node", run.node},
                              {"begun", static_cast<double>(run.time.begun()) / kSecond},
                              {"total_us", run.time.spent().total},
                              {"outcome", run.outcome.empty() ? Json() : Json(run.outcome)}});
  }
}

std::string report_text(const Json& report) {
  std::string out = head_line(report) + cause_line(report) + defect_lines(report);
  const Json& runs = field(report, "runs");
  if (runs.size() > 1) {
    out += fmt::format("{} of this job:\n", counted(runs.size(), "run"));
    for (const Json& run : runs) {
      out += run_line(run);
    }
  }
  return out + account_text(field(report, "account"));
}

std::string loss_line(const TimeSpent& spent) {
  // A rank that is replaced repeats a step. That is not worth a line.
  constexpr auto kLossWorthALine = std::int64_t{1'000'000};  // µs
  if (static_cast<std::int64_t>(spent.of(TimeUse::lost)) < kLossWorthALine) {
    return "";
  }
  return fmt::format("{} of {} were lost: work since the last save. goodput: {:.1f} %",
                     describe_micros(spent.of(TimeUse::lost)),
                     describe_micros(spent.total),
                     kPercent * spent.goodput());
}

}  // namespace muster
