// SPDX-License-Identifier: Apache-2.0
// Metric: what --check measures on each node, with the rules for a bad value. Used by judge.hpp and
// by the probes. Values; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace muster::check {

enum class Metric : std::uint8_t {
  cpus,
  cpu_speed,
  memory_bandwidth,
  memory_free,
  shm_size,
  shm_free,
  disk_free,
  disk_files_free,
  open_files,
  processes,
  locked_memory,
  clock_offset,
  gpus,
  gpu_ecc_errors,
  gpus_throttled,
  gpu_memory_used,
  latency,
  bandwidth,
};

inline constexpr std::size_t kMetrics = 18;

enum class Unit : std::uint8_t { count, speed, bytes, bytes_per_second, seconds };

// Which values are bad: lower or higher ones than those of other nodes, or different ones.
enum class Bad : std::uint8_t { low, high, apart };

// What a value means while workers run.
// compare: they do not change it. limit_only: they change it, so nodes are not compared. skip: it
// says nothing about the node.
enum class WithWorkers : std::uint8_t { compare, limit_only, skip };

// A value is bad beyond the absolute limit. It is also bad if it is below (for Bad::high, above)
// `factor` times the median of all nodes and differs from it by more than `margin`. If there are
// two nodes, each is compared with the other.
struct MetricRule {
  Metric metric;
  std::string_view id;    // in JSON
  std::string_view name;  // for users
  Unit unit;
  Bad bad;
  double factor;                // 0 if nodes are not compared
  double margin;                // of Bad::apart: the largest difference that is allowed
  double cap;                   // higher values count as this one; 0 if there is no cap
  std::optional<double> limit;  // the absolute limit
  WithWorkers with_workers = WithWorkers::compare;
};

// The value of a limit that is not set.
inline constexpr double kUnlimited = 1e15;

// In the order of Metric.
[[nodiscard]] std::span<const MetricRule, kMetrics> metric_rules();

[[nodiscard]] const MetricRule& rule_of(Metric metric);

// The same rule for nodes with running workers, as `with_workers` says. None: the metric is
// skipped.
[[nodiscard]] std::optional<MetricRule> rule_with_workers(const MetricRule& rule);
[[nodiscard]] std::optional<Metric> metric_of(std::string_view id);

// The value with its unit, for example "11.8 GB/s".
[[nodiscard]] std::string describe(Unit unit, double value);

}  // namespace muster::check
