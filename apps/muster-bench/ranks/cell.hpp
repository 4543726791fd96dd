// SPDX-License-Identifier: Apache-2.0
// One timed cell: an operation, its repetitions and batches, and the contents of the buffers
// before and after it. All programs use the same cells and values. Pure.
#pragma once

#include "base/error.hpp"
#include "collective/types.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::bench {

enum class Timed : std::uint8_t { all_reduce, broadcast, all_gather, reduce_scatter, all_to_all };

[[nodiscard]] std::string_view name_of(Timed operation);

// "f32:1024:100:50" means 50 batches of 100 in-place sums of 1024 bytes. For other operations, as
// in "all_gather:f32:1024:100:50", the larger buffer has 1024 bytes.
struct TimedCell {
  collective::DType dtype = collective::DType::f32;
  std::size_t bytes = 0;
  // Repetitions without a pause; each all_reduce multiplies the values by the number of ranks.
  int in_a_row = 1;
  int batches = 1;
  Timed operation = Timed::all_reduce;

  [[nodiscard]] std::size_t count() const { return bytes / size_of(dtype); }
};

[[nodiscard]] Result<TimedCell> parse_cell(const std::string& word);
[[nodiscard]] std::string word_of(const TimedCell& cell);
// The key without repetitions: "f32:1024", "all_gather:f32:1024".
[[nodiscard]] std::string key_of(const TimedCell& cell);

// The maximum number of in-place sums that keep all values exact, so that they can be compared bit
// by bit.
[[nodiscard]] int most_in_a_row(collective::DType dtype, int ranks);

// The input of `rank`, and the output after `sums` sums over `ranks` ranks. Each element is one of
// four values, selected by its index: small integers times a power of two, so that sums are exact.
[[nodiscard]] std::vector<char> pattern_before(collective::DType dtype, int rank);
[[nodiscard]] std::vector<char> pattern_after(collective::DType dtype, int ranks, int sums);

void fill(void* data, std::size_t bytes, const std::vector<char>& pattern);
[[nodiscard]] bool holds(const void* data, std::size_t bytes, const std::vector<char>& pattern);

// `times` must not be empty. For an even number of times, returns the mean of the two middle
// values.
[[nodiscard]] double median_of(std::vector<double> times);

}  // namespace muster::bench
