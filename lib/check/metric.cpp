// SPDX-License-Identifier: Apache-2.0
#include "check/metric.hpp"

#include "check/figures.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace muster::check {
namespace {

// Docker's default /dev/shm has 64 MiB, which is too small for NCCL and for data loaders.
constexpr double kShmSizeMin = 128 * kMi;
constexpr double kShmFreeMin = 64 * kMi;
constexpr double kMemoryFreeMin = 256 * kMi;
constexpr double kDiskFreeMin = 100 * kMi;
constexpr double kDiskFilesMin = 1000;
constexpr double kOpenFilesMin = 1024;
constexpr double kOpenFilesEnough = 65536;
constexpr double kProcessesMin = 256;
constexpr double kProcessesEnough = 32768;
constexpr double kLockedEnough = 64 * kGi;
constexpr double kClockOffsetMax = 0.5;
constexpr double kGpuMemoryUsedMax = kGi;
constexpr double kLatencyMax = 0.02;
constexpr double kBandwidthMin = 12.5e6;  // 100 Mbit/s

// The factors leave room for other programs on a node and for CPUs of different speed.
constexpr double kCpusFactor = 0.75;
constexpr double kSpeedFactor = 0.6;
constexpr double kHalf = 0.5;
constexpr double kBandwidthFactor = 0.4;
constexpr double kLatencyFactor = 3;
constexpr double kLatencyMargin = 0.001;

constexpr auto kLimitOnly = WithWorkers::limit_only;
constexpr auto kSkip = WithWorkers::skip;

// clang-format off
constexpr std::array<MetricRule, kMetrics> kRules{{
    {Metric::cpus, "cpus", "usable CPUs", Unit::count, Bad::low, kCpusFactor, 0, 0, {}},
    {Metric::cpu_speed, "cpu_speed", "CPU speed", Unit::speed, Bad::low, kSpeedFactor, 0, 0, {},
     kSkip},
    {Metric::memory_bandwidth, "memory_bandwidth", "memory bandwidth", Unit::bytes_per_second,
     Bad::low, kHalf, 0, 0, {}, kSkip},
    {Metric::memory_free, "memory_free", "available memory", Unit::bytes, Bad::low, kHalf, kGi, 0,
     kMemoryFreeMin, kLimitOnly},
    {Metric::shm_size, "shm_size", "size of /dev/shm", Unit::bytes, Bad::low, kHalf, 0, 0,
     kShmSizeMin},
    {Metric::shm_free, "shm_free", "free space in /dev/shm", Unit::bytes, Bad::low, kHalf, kGi, 0,
     kShmFreeMin, kLimitOnly},
    {Metric::disk_free, "disk_free", "free disk space for logs", Unit::bytes, Bad::low, 0, 0, 0,
     kDiskFreeMin},
    {Metric::disk_files_free, "disk_files_free", "free inodes for logs", Unit::count, Bad::low, 0,
     0, 0, kDiskFilesMin},
    {Metric::open_files, "open_files", "limit of open files", Unit::count, Bad::low, kHalf, 0,
     kOpenFilesEnough, kOpenFilesMin},
    {Metric::processes, "processes", "limit of processes", Unit::count, Bad::low, kHalf, 0,
     kProcessesEnough, kProcessesMin},
    {Metric::locked_memory, "locked_memory", "limit of locked memory", Unit::bytes, Bad::low,
     kHalf, 0, kLockedEnough, {}},
    {Metric::clock_offset, "clock_offset", "clock offset", Unit::seconds, Bad::apart, 0,
     kClockOffsetMax, 0, {}},
    {Metric::gpus, "gpus", "usable GPUs", Unit::count, Bad::low, 1, 0, 0, {}},
    {Metric::gpu_ecc_errors, "gpu_ecc_errors", "uncorrected GPU memory errors", Unit::count,
     Bad::high, 0, 0, 0, 0},
    {Metric::gpus_throttled, "gpus_throttled", "throttled GPUs", Unit::count, Bad::high, 0, 0, 0,
     0},
    {Metric::gpu_memory_used, "gpu_memory_used", "GPU memory in use", Unit::bytes, Bad::high, 0, 0,
     0, kGpuMemoryUsedMax, kSkip},
    {Metric::latency, "latency", "network latency", Unit::seconds, Bad::high, kLatencyFactor,
     kLatencyMargin, 0, kLatencyMax, kLimitOnly},
    {Metric::bandwidth, "bandwidth", "network bandwidth", Unit::bytes_per_second, Bad::low,
     kBandwidthFactor, 0, 0, kBandwidthMin, kLimitOnly},
}};

// clang-format on

std::string describe_bytes(double value) {
  return value >= kGi   ? fmt::format("{:.1f} GiB", value / kGi)
         : value >= kMi ? fmt::format("{:.0f} MiB", value / kMi)
                        : fmt::format("{:.0f} KiB", value / kKi);
}

std::string describe_seconds(double value) {
  const double size = std::abs(value);
  return size >= 1       ? fmt::format("{:.1f} s", value)
         : size >= 0.001 ? fmt::format("{:.1f} ms", value * 1e3)
                         : fmt::format("{:.0f} µs", value * 1e6);
}

}  // namespace

std::span<const MetricRule, kMetrics> metric_rules() {
  return kRules;
}

const MetricRule& rule_of(Metric metric) {
  return kRules.at(static_cast<std::size_t>(metric));
}

std::optional<MetricRule> rule_with_workers(const MetricRule& rule) {
  if (rule.with_workers == WithWorkers::skip) {
    return std::nullopt;
  }
  MetricRule out = rule;
  out.factor = rule.with_workers == WithWorkers::limit_only ? 0 : rule.factor;
  return out;
}

std::optional<Metric> metric_of(std::string_view id) {
  const auto found = std::ranges::find(kRules, id, &MetricRule::id);
  return found == kRules.end() ? std::nullopt : std::optional(found->metric);
}

std::string describe(Unit unit, double value) {
  if (value >= kUnlimited) {
    return "unlimited";
  }
  switch (unit) {
    case Unit::count:
      return fmt::format("{:.10g}", std::round(value * 10) / 10);
    case Unit::speed:
      return fmt::format("{:.0f} million steps/s", value / 1e6);
    case Unit::bytes:
      return describe_bytes(value);
    case Unit::bytes_per_second:
      return value >= 1e9 ? fmt::format("{:.1f} GB/s", value / 1e9)
                          : fmt::format("{:.1f} MB/s", value / 1e6);
    case Unit::seconds:
      return describe_seconds(value);
  }
  return {};
}

}  // namespace muster::check
