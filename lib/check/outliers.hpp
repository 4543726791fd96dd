// SPDX-License-Identifier: Apache-2.0
// Finds values of one metric that are beyond its limit or far from the others. Part of judge.hpp.
// Pure; thread-safe.
#pragma once

#include "check/judge.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace muster::check {

// The value of a node or of a link.
struct Sample {
  int index = 0;
  double value = 0;
};

struct Outlier {
  Sample sample;
  std::optional<double> median{};  // none if the value is beyond the limit
};

// With Bad::apart and two samples, the first one is the reference.
[[nodiscard]] std::vector<Outlier> find_outliers(const MetricRule& rule,
                                                 const std::vector<Sample>& samples);

// `samples` must not be empty.
[[nodiscard]] MetricSummary summarize(const MetricRule& rule,
                                      const std::vector<Sample>& samples,
                                      const std::function<std::string(int index)>& name);

// "memory bandwidth 2.1 GB/s, the median is 11.8 GB/s"
[[nodiscard]] std::string describe(const MetricRule& rule, const Outlier& outlier);

}  // namespace muster::check
