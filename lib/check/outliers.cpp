// SPDX-License-Identifier: Apache-2.0
#include "check/outliers.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace muster::check {
namespace {

double capped(const MetricRule& rule, double value) {
  return rule.cap > 0 ? std::min(value, rule.cap) : value;
}

double middle(double low, double high) {
  return low + (high - low) / 2;
}

double median_of(const std::vector<double>& sorted) {
  return middle(sorted[(sorted.size() - 1) / 2], sorted[sorted.size() / 2]);
}

bool is_beyond_limit(const MetricRule& rule, double value) {
  if (!rule.limit) {
    return false;
  }
  return rule.bad == Bad::low ? value < *rule.limit : value > *rule.limit;
}

bool is_far(const MetricRule& rule, double value, double median) {
  const double difference = std::abs(value - median);
  if (rule.bad == Bad::apart) {
    return difference > rule.margin;
  }
  const bool is_off =
      rule.bad == Bad::low ? value < rule.factor * median : value > rule.factor * median;
  return rule.factor > 0 && is_off && difference > rule.margin;
}

}  // namespace

std::vector<Outlier> find_outliers(const MetricRule& rule, const std::vector<Sample>& samples) {
  std::vector<double> sorted;
  for (const Sample& sample : samples) {
    sorted.push_back(capped(rule, sample.value));
  }
  const std::vector<double> values = sorted;
  std::ranges::sort(sorted);
  std::vector<Outlier> outliers;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (is_beyond_limit(rule, values[i])) {
      outliers.push_back({samples[i]});
      continue;
    }
    const bool is_reference = rule.bad == Bad::apart && i == 0;
    if (values.size() < 2 || (values.size() == 2 && is_reference)) {
      continue;
    }
    const double median = values.size() == 2 ? values[1 - i] : median_of(sorted);
    if (is_far(rule, values[i], median)) {
      outliers.push_back({samples[i], median});
    }
  }
  return outliers;
}

MetricSummary summarize(const MetricRule& rule,
                        const std::vector<Sample>& samples,
                        const std::function<std::string(int index)>& name) {
  std::vector<Sample> sorted = samples;
  std::ranges::stable_sort(sorted, {}, &Sample::value);
  std::vector<double> values;
  for (const Sample& sample : sorted) {
    values.push_back(sample.value);
  }
  return {.metric = rule.metric,
          .median = median_of(values),
          .lowest = sorted.front().value,
          .highest = sorted.back().value,
          .lowest_node = name(sorted.front().index),
          .highest_node = name(sorted.back().index)};
}

std::string describe(const MetricRule& rule, const Outlier& outlier) {
  const double value = outlier.sample.value;
  if (rule.bad == Bad::apart && outlier.median) {
    const double difference = value - *outlier.median;
    return fmt::format("the clock is {} {} the other nodes",
                       describe(rule.unit, std::abs(difference)),
                       difference > 0 ? "ahead of" : "behind");
  }
  const std::string what = fmt::format("{} {}", rule.name, describe(rule.unit, value));
  if (outlier.median) {
    return fmt::format("{}, the median is {}", what, describe(rule.unit, *outlier.median));
  }
  return fmt::format("{}, the {} is {}",
                     what,
                     rule.bad == Bad::low ? "minimum" : "maximum",
                     describe(rule.unit, rule.limit.value_or(0)));
}

}  // namespace muster::check
