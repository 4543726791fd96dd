// SPDX-License-Identifier: Apache-2.0
// Median, least and greatest of samples, and how people read such numbers. Pure.
#pragma once

#include <string>
#include <vector>

namespace muster::bench {

struct Summary {
  double median = 0;
  double least = 0;
  double greatest = 0;
  bool operator==(const Summary&) const = default;
};

// Of at least one sample; of an even number the mean of the two in the middle.
[[nodiscard]] Summary summarize(std::vector<double> samples);

// Three significant digits, with k and M for large numbers: "0.412", "7.35", "153k", "2.68M".
[[nodiscard]] std::string readable(double number);

}  // namespace muster::bench
