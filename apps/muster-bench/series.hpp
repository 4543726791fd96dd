// SPDX-License-Identifier: Apache-2.0
// Runs the rows of one column in turn (A B C A B C …), watches the CPU use of others meanwhile, and
// repeats the column when it was disturbed, keeping the quietest attempt. Called by all blocks.
#pragma once

#include "apps/muster-bench/peers.hpp"
#include "apps/muster-bench/report.hpp"
#include "base/error.hpp"

#include <functional>
#include <string>
#include <vector>

namespace muster::bench {

// One row of a column: takes the samples of one round (most take one).
struct Contestant {
  std::string row;
  bool installed = true;
  bool slow = false;  // takes part in `slow_rounds` rounds only
  std::function<Result<std::vector<double>>()> measure;
};

// Fills one column of the table; makes the rows when they are not there yet. Says on stderr what
// it does. A contestant that fails twice, or has used 20 s, is not asked again in this column.
void run_column(Table& table,
                std::size_t column,
                const std::vector<Contestant>& contestants,
                const Effort& effort);

}  // namespace muster::bench
