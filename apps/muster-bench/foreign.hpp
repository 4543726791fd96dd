// SPDX-License-Identifier: Apache-2.0
// How much of the machine others used while we measured: total busy time minus that of this
// process, its children that ended and those that still run. Called around every column.
#pragma once

#include <vector>

#include <sys/types.h>

namespace muster::bench {

class ForeignMeter {
 public:
  ForeignMeter();

  // Percent of all cpus since construction. Children that still run are below this process, so
  // they are found; time is counted in ticks of 10 ms, so short spans are rough.
  [[nodiscard]] double percent() const;

 private:
  struct Ticks {
    long long busy = 0;
    long long all = 0;
    long long own = 0;
  };

  [[nodiscard]] static Ticks now();

  Ticks begin_;
};

}  // namespace muster::bench
