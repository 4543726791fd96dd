// SPDX-License-Identifier: Apache-2.0
#include "status/metrics.hpp"

#include "base/printable.hpp"
#include "status/fold_account.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string_view>

namespace muster {
namespace {

constexpr int kPhases = 6;

class Text {
 public:
  void begin(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    out_ += fmt::format("# HELP muster_{} {}\n# TYPE muster_{} {}\n", name, help, name, type);
  }

  template <class Value>
  void add(std::string_view labels, Value value) {
    add_line(name_, labels, fmt::format("{}", value));
  }

  // Adds one sample of a histogram; `part` is "_bucket", "_sum" or "_count".
  template <class Value>
  void add_part(std::string_view part, std::string_view labels, Value value) {
    add_line(name_ + std::string(part), labels, fmt::format("{}", value));
  }

  template <class Value>
  void one(std::string_view name, std::string_view type, std::string_view help, Value value) {
    begin(name, type, help);
    add("", value);
  }

  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  void add_line(const std::string& name, std::string_view labels, const std::string& value) {
    out_ += fmt::format("muster_{}{}{}{} {}\n",
                        name,
                        labels.empty() ? "" : "{",
                        labels,
                        labels.empty() ? "" : "}",
                        value);
  }

  std::string name_;
  std::string out_;
};

std::string label_value(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '"' || c == '\\') {
      out += '\\';
    }
    out += c;
  }
  return out;
}

void add_job(Text& text, const JobStatus& status, const MetricsExtra& extra) {
  text.begin("job_info", "gauge", "The job and the node that reports it.");
  text.add(fmt::format("job=\"{}\",node=\"{}\",program=\"{}\",version=\"{}\"",
                       label_value(status.job),
                       label_value(status.node),
                       label_value(status.program),
                       label_value(status.version)),
           1);
  text.one("job_start_time_seconds",
           "gauge",
           "Unix time at which this launcher started.",
           status.started);
  text.one("job_age_seconds",
           "gauge",
           "Seconds since this launcher started.",
           extra.now - status.started);
  text.begin("phase", "gauge", "1 for the phase that this node is in, 0 for the others.");
  for (int i = 0; i < kPhases; ++i) {
    const auto phase = static_cast<JobPhase>(i);
    text.add(fmt::format("phase=\"{}\"", describe(phase)), phase == status.phase ? 1 : 0);
  }
}

void add_round(Text& text, const JobStatus& status) {
  const RoundStatus* round = status.round();
  text.one("round",
           "gauge",
           "Number of the round, the same on all nodes; 0 before the first.",
           round == nullptr ? 0 : round->number);
  text.one("world_size",
           "gauge",
           "Workers on all nodes in this round.",
           round == nullptr ? 0 : round->world_size);
  text.one("nodes", "gauge", "Nodes in this round.", round == nullptr ? 0 : round->nodes.size());
  text.one("leader", "gauge", "1 on the node of rank 0.", status.leads() ? 1 : 0);
  text.begin("workers", "gauge", "Workers on this node in this round, by state.");
  std::array<int, kWorkerStates.size()> counts{};
  for (std::size_t i = 0; round != nullptr && i < round->workers.size(); ++i) {
    ++counts.at(static_cast<std::size_t>(round->workers[i].state));
  }
  for (std::size_t i = 0; i < counts.size(); ++i) {
    text.add(fmt::format("state=\"{}\"", kWorkerStates.at(i)), counts.at(i));
  }
}

// Adds the steps of workers that report them.
void add_steps(Text& text, const JobStatus& status) {
  text.begin("worker_step", "gauge", "Training step of each worker on this node that reports one.");
  for (std::size_t i = 0; status.round() != nullptr && i < status.round()->workers.size(); ++i) {
    const WorkerStatus& worker = status.round()->workers[i];
    if (worker.stats.step) {
      text.add(fmt::format("rank=\"{}\"", worker.rank), *worker.stats.step);
    }
  }
}

// Adds one value per worker that has it.
template <class Value>
void add_stat(Text& text, const JobStatus& status, std::optional<Value> WorkerStats::*value) {
  for (std::size_t i = 0; status.round() != nullptr && i < status.round()->workers.size(); ++i) {
    const WorkerStatus& worker = status.round()->workers[i];
    if (const auto& found = worker.stats.*value) {
      text.add(fmt::format("rank=\"{}\"", worker.rank), *found);
    }
  }
}

// Adds what workers report with their steps, and what they use.
void add_stats(Text& text, const JobStatus& status) {
  text.begin("worker_steps_per_second", "gauge", "Steps per second of each worker on this node.");
  add_stat(text, status, &WorkerStats::steps_per_second);
  text.begin("worker_number", "gauge", "Numbers that workers on this node report, by name.");
  for (std::size_t i = 0; status.round() != nullptr && i < status.round()->workers.size(); ++i) {
    const WorkerStatus& worker = status.round()->workers[i];
    for (const auto& [name, number] : worker.stats.numbers) {
      text.add(fmt::format("rank=\"{}\",name=\"{}\"", worker.rank, label_value(name)), number);
    }
  }
  text.begin("worker_cpus", "gauge", "CPUs that each worker and its child processes use.");
  add_stat(text, status, &WorkerStats::cpus);
  text.begin("worker_memory_bytes", "gauge", "RAM that each worker and its child processes use.");
  add_stat(text, status, &WorkerStats::memory);
  text.begin("worker_gpus", "gauge", "Sum of the utilization of the GPUs that each worker uses.");
  add_stat(text, status, &WorkerStats::gpus);
  text.begin("worker_gpu_memory_bytes", "gauge", "GPU memory that each worker uses.");
  add_stat(text, status, &WorkerStats::gpu_memory);
}

// Adds the waits of workers that use the collective library.
void add_waits(Text& text, const JobStatus& status) {
  const RoundStatus* round = status.round();
  text.begin("worker_waiting_seconds_total",
             "counter",
             "Time that each worker on this node has waited in collective operations.");
  for (std::size_t i = 0; round != nullptr && i < round->workers.size(); ++i) {
    const WorkerStatus& worker = round->workers[i];
    if (worker.stats.waits) {
      text.add(fmt::format("rank=\"{}\"", worker.rank), worker.stats.waits->seconds);
    }
  }
  text.begin("straggler", "gauge", "1 for a worker that the others wait for.");
  std::map<int, int> slow;
  for (std::size_t i = 0; round != nullptr && i < round->workers.size(); ++i) {
    if (round->workers[i].stats.waits) {
      slow[round->workers[i].rank] = 0;
    }
  }
  for (std::size_t i = 0; status.straggler && i < status.straggler->ranks.size(); ++i) {
    slow[status.straggler->ranks[i]] = 1;
  }
  for (const auto& [rank, is_slow] : slow) {
    text.add(fmt::format("rank=\"{}\"", rank), is_slow);
  }
  text.one("straggler_cost_ratio",
           "gauge",
           "Fraction of the job's time that stragglers cost.",
           status.straggler ? status.straggler->share : 0);
}

void add_counters(Text& text, const JobStatus& status) {
  text.one("rounds_total", "counter", "Rounds that began on this node.", status.rounds_count);
  text.one("restarts_total",
           "counter",
           "Restarts of all workers of the job after a failure.",
           status.restarts);
  text.one("regroups_total",
           "counter",
           "Rounds that ended because the nodes of a multi-node job formed a new one.",
           status.regroups);
  text.one("fences_total",
           "counter",
           "Number of times that this node lost contact with the others.",
           status.fences);
  text.one("hang",
           "gauge",
           "1 while --hang-timeout detects that the workers make no progress.",
           status.hang ? 1 : 0);
  text.one("hangs_total", "counter", "Hangs that --hang-timeout found.", status.hangs);
  text.one("warnings_total", "counter", "Warnings and errors from the launcher.", status.warnings);
  text.begin("failures_total", "counter", "Failed workers on this node, by cause.");
  for (const std::string_view cause : kFailureCauses) {
    const auto count = status.failures_by_cause.find(std::string(cause));
    text.add(fmt::format("cause=\"{}\"", cause),
             count == status.failures_by_cause.end() ? 0 : count->second);
  }
}

void add_account(Text& text, const TimeSpent& spent) {
  text.begin("time_seconds", "gauge", "What the time since this launcher started was used for.");
  for (std::size_t i = 0; i < kTimeUses.size(); ++i) {
    text.add(fmt::format("use=\"{}\"", kTimeUses.at(i)),
             static_cast<double>(spent.uses.at(i)) / kMicrosPerSecond);
  }
}

void add_regroup_times(Text& text, const JobStatus& status) {
  text.begin("regroup_seconds",
             "histogram",
             "Time from the end of a round to the start of the next round's workers.");
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < kRegroupBounds.size(); ++i) {
    count += status.regroup_times.counts.at(i);
    text.add_part("_bucket", fmt::format("le=\"{}\"", kRegroupBounds.at(i)), count);
  }
  count += status.regroup_times.counts.back();
  text.add_part("_bucket", "le=\"+Inf\"", count);
  text.add_part("_sum", "", status.regroup_times.sum);
  text.add_part("_count", "", count);
}

}  // namespace

std::string metrics_text(const JobStatus& status, const MetricsExtra& extra) {
  Text text;
  add_job(text, status, extra);
  add_round(text, status);
  add_steps(text, status);
  add_stats(text, status);
  add_waits(text, status);
  add_counters(text, status);
  add_account(text, spent_until(status, extra.now));
  add_regroup_times(text, status);
  if (extra.output_bytes) {
    text.one("output_bytes_total",
             "counter",
             "Worker output that the launcher forwarded.",
             *extra.output_bytes);
  }
  text.one("http_requests_total", "counter", "Requests answered.", extra.http_requests);
  text.one(
      "http_refused_total", "counter", "Connections and requests refused.", extra.http_refused);
  return text.take();
}

}  // namespace muster
