// SPDX-License-Identifier: Apache-2.0
#include "hang/report/findings_archive.hpp"

#include <cmath>
#include <limits>

namespace muster::hang {

void FindingsReader::seconds(double& value) {
  std::uint64_t raw = 0;
  number(raw);
  value = std::bit_cast<double>(raw);
  // The negation also rejects NaN, for which both comparisons are false.
  if (!(value >= 0 && value <= kSecondsMax)) {
    fail("time out of range");
    value = 0;
  }
}

void FindingsReader::ranks(std::vector<int>& ranks) {
  const std::size_t count = take_count("spans", kRanksToldMax);
  for (std::size_t i = 0; i < count && ok(); ++i) {
    std::int32_t first = 0;
    std::int32_t length = 0;
    number(first);
    number(length);
    // Checked before the loop: `first + length` must not overflow, and a span of 8 bytes must not
    // allocate memory for billions of ranks.
    if (first < 0 || length < 1 || first > std::numeric_limits<std::int32_t>::max() - length ||
        static_cast<std::size_t>(length) > ranks_left_) {
      fail("ranks out of range");
      return;
    }
    ranks_left_ -= static_cast<std::size_t>(length);
    for (std::int32_t rank = first; rank < first + length; ++rank) {
      ranks.push_back(rank);
    }
  }
}

}  // namespace muster::hang
