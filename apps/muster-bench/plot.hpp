// SPDX-License-Identifier: Apache-2.0
// A table as a picture: grouped bars on a logarithmic scale, median as a label, least and greatest
// as whiskers. Plain SVG that reads well on white and on dark pages. Pure; called by `all`.
#pragma once

#include "apps/muster-bench/report.hpp"

#include <string>

namespace muster::bench {

[[nodiscard]] std::string svg_of(const Table& table);

// The powers of ten that frame all samples of a table (exponents); {0, 1} when there are none.
struct Decades {
  int from = 0;
  int to = 1;
  bool operator==(const Decades&) const = default;
};

[[nodiscard]] Decades decades_of(const Table& table);

}  // namespace muster::bench
