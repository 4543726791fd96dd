// SPDX-License-Identifier: Apache-2.0
#include "agent/watch/stats_watch.hpp"

#include "base/clock.hpp"
#include "process/run/linux_runner.hpp"

#include <asio/io_context.hpp>

#include <algorithm>
#include <utility>

namespace muster {
namespace {

constexpr std::size_t kGpuBytesMax = std::size_t{1} << 20;

double seconds_of(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

StatsWatch::StatsWatch(asio::io_context& loop, StatsWatchParts parts)
    : loop_(loop), parts_(std::move(parts)), timer_(loop) {}

void StatsWatch::take(const JobEvent& event) {
  if (std::holds_alternative<event::RoundBegun>(event.what)) {
    begin_round();
  } else if (const auto* started = std::get_if<event::WorkerStarted>(&event.what)) {
    workers_[started->local_rank] = {.pid = started->pid, .output_at = steady_now()};
  } else if (const auto* ended = std::get_if<event::WorkerEnded>(&event.what)) {
    if (const auto worker = workers_.find(ended->exit.local_rank); worker != workers_.end()) {
      worker->second = {};
    }
  } else if (std::holds_alternative<event::JobEnded>(event.what)) {
    timer_.cancel();
    has_gpus_ = false;
    smi_.reset();
  }
}

void StatsWatch::begin_round() {
  times_.begin_round();
  workers_.clear();
  look_later();
}

void StatsWatch::look_later() {
  timer_.expires_after(kStepInterval);
  timer_.async_wait([this](const std::error_code& error) {
    if (!error) {
      const TimePoint now = steady_now();
      times_.end_interval(now, samples());
      read_output(now);
      look_later();
    }
  });
}

StepTimes::Samples StatsWatch::samples() {
  StepTimes::Samples out;
  for (const channel::Progress& one : parts_.channel.progress()) {
    out.push_back(one.step ? std::optional(StepSample{*one.step, one.time}) : std::nullopt);
  }
  return out;
}

void StatsWatch::read_output(TimePoint now) {
  for (auto& [local_rank, worker] : workers_) {
    if (worker.pid == 0) {
      continue;
    }
    const auto bytes = parts_.runner.output_bytes(local_rank);
    if (bytes.value_or(0) != worker.output_bytes.value_or(0)) {
      worker.output_at = now;
    }
    worker.output_bytes = bytes;
  }
}

std::vector<pid_t> StatsWatch::roots() const {
  std::vector<pid_t> out;
  for (const auto& [local_rank, worker] : workers_) {
    out.push_back(worker.pid);
  }
  return out;
}

// Many processes take long to read, so the interval grows with the cost.
void StatsWatch::read_use(TimePoint now) {
  if (now - used_at_ < std::max<Duration>(kUseInterval, kUseCostMax * use_cost_)) {
    return;
  }
  read_output(now);
  const auto use = sum_use(roots(), descendants());
  for (auto& [local_rank, worker] : workers_) {
    const auto found = use.find(worker.pid);
    const auto before = std::exchange(worker.cpu_seconds, std::nullopt);
    worker.cpus.reset();
    worker.memory.reset();
    if (worker.pid == 0 || found == use.end()) {
      continue;
    }
    worker.cpu_seconds = found->second.cpu_seconds;
    worker.memory = found->second.memory;
    if (before) {  // the sum decreases when a child process exits
      worker.cpus = std::max(0.0, *worker.cpu_seconds - *before) / seconds_of(now - used_at_);
    }
  }
  used_at_ = now;
  use_cost_ = steady_now() - now;
}

void StatsWatch::ask_gpus(TimePoint now) {
  if (!has_gpus_ || now - gpus_at_ < std::max<Duration>(kGpuInterval, kGpuCostMax * gpus_cost_)) {
    return;
  }
  auto smi = HelperProcess::start(loop_,
                                  {.argv = gpu_use_command(),
                                   .environment = parts_.environment,
                                   .timeout = kGpuTimeout,
                                   .bytes_max = kGpuBytesMax},
                                  [this](const std::string& text) { take_gpus(text); });
  has_gpus_ = smi.has_value();
  if (has_gpus_) {
    parts_.runner.spare((*smi)->pid());
    smi_ = std::move(*smi);
    gpus_at_ = now;
    gpus_cost_ = kGpuTimeout;  // until it has exited
  }
}

void StatsWatch::take_gpus(const std::string& text) {
  has_gpus_ = !text.empty();
  const auto use = sum_gpu_use(text, roots(), descendants());
  for (auto& [local_rank, worker] : workers_) {
    const auto found = use.find(worker.pid);
    worker.gpu =
        worker.pid != 0 && found != use.end() ? std::optional(found->second) : std::nullopt;
  }
  gpus_cost_ = steady_now() - gpus_at_;
  gpus_at_ = steady_now();
}

StepChart StatsWatch::chart() const {
  StepChart out;
  if (times_.seconds().empty()) {
    return out;
  }
  out.seconds.assign(times_.seconds().begin(), times_.seconds().end());
  out.end = wall_now_seconds() - seconds_of(steady_now() - times_.end());
  return out;
}

NodeStats StatsWatch::read() {
  const TimePoint now = steady_now();
  read_use(now);
  ask_gpus(now);
  const auto steps = samples();
  const auto rates = times_.rates(now, steps);
  const auto numbers = parts_.channel.numbers();
  const auto waits = parts_.waits();
  NodeStats out;
  out.steps = chart();
  for (const auto& [local_rank, worker] : workers_) {
    const auto at = static_cast<std::size_t>(local_rank);
    out.workers.resize(std::max(out.workers.size(), at + 1));
    WorkerStats& stats = out.workers[at];
    if (at < steps.size() && steps[at]) {
      stats.step = steps[at]->step;
      stats.step_age = seconds_of(now - steps[at]->when);
      stats.steps_per_second = worker.pid != 0 ? rates[at] : std::nullopt;
    }
    for (std::size_t i = 0; at < numbers.size() && i < numbers[at].size(); ++i) {
      stats.numbers.emplace_back(numbers[at][i].name, numbers[at][i].number);
    }
    stats.waits = at < waits.size() ? waits[at] : std::nullopt;
    if (worker.pid != 0 && worker.output_bytes) {
      stats.output_age = seconds_of(now - worker.output_at);
    }
    stats.cpus = worker.cpus;
    stats.memory = worker.memory;
    if (worker.gpu) {
      stats.gpus = worker.gpu->busy;
      stats.gpu_memory = worker.gpu->memory;
    }
  }
  return out;
}

}  // namespace muster
