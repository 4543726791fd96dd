// SPDX-License-Identifier: Apache-2.0
// StatsWatch: what the workers on this node do at the moment, for clients of the status. Reads
// their steps once per kStepInterval, for the chart. Reads /proc and runs nvidia-smi only while
// clients ask. It is an event sink, so that it knows the workers. Owned by the agent; one thread.
#pragma once

#include "agent/events/event_stream.hpp"
#include "agent/workers/worker_channel.hpp"
#include "process/start/helper_process.hpp"
#include "process/tree/gpu_use.hpp"
#include "process/tree/tree_use.hpp"
#include "status/step_times.hpp"
#include "status/worker_stats.hpp"

#include <asio/steady_timer.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace asio {
class io_context;
}

namespace muster {

class LinuxRunner;

// The minimum interval between two reads of /proc, and the part of a CPU that they may use.
inline constexpr Duration kUseInterval = std::chrono::seconds(1);
inline constexpr int kUseCostMax = 50;  // a fiftieth of a CPU

// The same for nvidia-smi, which may keep a CPU busy for seconds.
inline constexpr Duration kGpuInterval = std::chrono::seconds(2);
inline constexpr int kGpuCostMax = 20;
inline constexpr Duration kGpuTimeout = std::chrono::seconds(20);

struct StatsWatchParts {
  LinuxRunner& runner;
  WorkerChannel& channel;
  std::vector<std::string> environment;  // for nvidia-smi
  // By local rank.
  std::function<std::vector<std::optional<WaitStatus>>()> waits;
};

class StatsWatch final : public EventSink {
 public:
  StatsWatch(asio::io_context& loop, StatsWatchParts parts);

  // EventSink
  void take(const JobEvent& event) override;

  // Call for a client that asks for the status.
  [[nodiscard]] NodeStats read();

 private:
  struct Worker {
    pid_t pid = 0;  // 0 after its exit
    std::optional<std::uint64_t> output_bytes = std::nullopt;
    TimePoint output_at{};  // when output_bytes changed
    std::optional<double> cpu_seconds = std::nullopt;
    std::optional<double> cpus = std::nullopt;
    std::optional<std::uint64_t> memory = std::nullopt;
    std::optional<GpuUse> gpu = std::nullopt;
  };

  void begin_round();
  void look_later();
  [[nodiscard]] StepTimes::Samples samples();
  void read_output(TimePoint now);
  void read_use(TimePoint now);
  void ask_gpus(TimePoint now);
  void take_gpus(const std::string& text);
  [[nodiscard]] std::vector<pid_t> roots() const;
  [[nodiscard]] StepChart chart() const;

  asio::io_context& loop_;
  StatsWatchParts parts_;
  asio::steady_timer timer_;
  StepTimes times_;
  std::map<int, Worker> workers_;  // by local rank
  TimePoint used_at_{};            // when /proc was read last
  Duration use_cost_{};            // the time that it took
  std::unique_ptr<HelperProcess> smi_;
  bool has_gpus_ = true;  // until nvidia-smi prints nothing
  TimePoint gpus_at_{};   // when nvidia-smi was last started or has exited
  Duration gpus_cost_{};  // the time that it took
};

}  // namespace muster
