// SPDX-License-Identifier: Apache-2.0
// StdSpec: the streams and local ranks that --redirects or --tee selects. Value type, pure.
#pragma once

#include "base/error.hpp"

#include <map>
#include <string_view>

namespace muster {

// A mask with the same values as in torchrun: 0 none, 1 stdout, 2 stderr, 3 both.
struct StdSpec {
  int all = 0;  // for ranks that are not in by_rank
  std::map<int, int> by_rank;

  [[nodiscard]] int of(int local_rank) const;

  [[nodiscard]] bool wants_stdout(int local_rank) const { return (of(local_rank) & 1) != 0; }

  [[nodiscard]] bool wants_stderr(int local_rank) const { return (of(local_rank) & 2) != 0; }

  bool operator==(const StdSpec&) const = default;
};

// "0" … "3", or "rank:value,rank:value". Local ranks may have several digits. Error: usage.
[[nodiscard]] Result<StdSpec> parse_std_spec(std::string_view text);

}  // namespace muster
