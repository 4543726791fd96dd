// SPDX-License-Identifier: Apache-2.0
// What the figures should show: each goal is a cell, or the ratio of two cells' medians, and a
// limit. Printed beside the figures; never the reason of an exit code. Pure.
#pragma once

#include "apps/muster-bench/report.hpp"

#include <optional>
#include <string>
#include <vector>

namespace muster::bench {

struct Verdict {
  std::string table;  // id of the one that the goal is about
  std::string text;
  double limit = 0;
  bool at_most = true;             // the figure must not be greater than the limit; else not less
  std::optional<double> measured;  // none when a row was not measured or a peer is absent

  [[nodiscard]] bool met() const {
    return measured && (at_most ? *measured <= limit : *measured >= limit);
  }
};

[[nodiscard]] std::vector<Verdict> judge(const Report& report);

[[nodiscard]] std::string markdown_of(const std::vector<Verdict>& verdicts);

}  // namespace muster::bench
