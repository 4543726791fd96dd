// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/ranks/cell.hpp"

#include "collective/kernels/kernels.hpp"
#include "support/catch.hpp"

#include <cmath>
#include <cstring>

using namespace muster::bench;
using muster::collective::DType;
using muster::collective::Op;

namespace {

constexpr DType kTypes[]{
    DType::i8, DType::i32, DType::i64, DType::f16, DType::bf16, DType::f32, DType::f64};

// The result of summing the patterns of `ranks` ranks with the library's own arithmetic.
std::vector<char> summed(DType dtype, int ranks, int sums) {
  std::vector<std::vector<char>> inputs;
  for (int rank = 0; rank < ranks; ++rank) {
    inputs.push_back(pattern_before(dtype, rank));
  }
  for (int i = 0; i < sums; ++i) {
    std::vector<const void*> sources;
    for (const auto& input : inputs) {
      sources.push_back(input.data());
    }
    std::vector<char> result(inputs[0].size());
    reduce({.op = Op::sum,
            .dtype = dtype,
            .scale = 1,
            .sources = sources.data(),
            .source_count = sources.size(),
            .count = result.size() / size_of(dtype),
            .divisor = 0},
           result.data(),
           muster::collective::best_isa());
    inputs.assign(inputs.size(), result);
  }
  return inputs[0];
}

}  // namespace

TEST_CASE("cells: a printed cell can be parsed again") {
  const TimedCell cell{DType::bf16, 2048, 7, 30};
  const auto read = parse_cell(word_of(cell));
  REQUIRE(read);
  CHECK(word_of(*read) == "bf16:2048:7:30");
  CHECK(read->count() == 1024);
  const std::string other = "reduce_scatter:f32:64:1:2";
  const auto operation = parse_cell(other);
  REQUIRE(operation);
  CHECK(word_of(*operation) == other);
  CHECK(key_of(*operation) == "reduce_scatter:f32:64");
}

TEST_CASE("cells: rejects text that is not a cell") {
  for (const auto* const word : {"",
                                 "f32",
                                 "f32:4:1",
                                 "f32:4:1:1:1",
                                 "f31:4:1:1",
                                 "f32:-4:1:1",
                                 "f32:6:1:1",
                                 "f32:4:0:1",
                                 "gather:f32:4:1:1"}) {
    CAPTURE(word);
    CHECK_FALSE(parse_cell(word));
  }
}

TEST_CASE("cells: the expected output equals the computed sums to the last bit") {
  for (const DType dtype : kTypes) {
    for (const int ranks : {1, 2, 4}) {
      const int most = most_in_a_row(dtype, ranks);
      for (const int sums : {1, 2, most}) {
        CAPTURE(name_of(dtype), ranks, sums);
        CHECK(pattern_after(dtype, ranks, sums) == summed(dtype, ranks, sums));
      }
    }
  }
}

TEST_CASE("cells: finds a wrong element anywhere") {
  const auto pattern = pattern_before(DType::f32, 1);
  std::vector<char> data(pattern.size() * 2 + 100);
  fill(data.data(), data.size(), pattern);
  CHECK(holds(data.data(), data.size(), pattern));
  data.back() = static_cast<char>(data.back() ^ 1);
  CHECK_FALSE(holds(data.data(), data.size(), pattern));
}

TEST_CASE("cell: the median of an even number of times is the mean of the middle two") {
  CHECK(median_of({5, 1, 9}) == 5);
  CHECK(median_of({4}) == 4);
  CHECK(median_of({1, 2, 10, 4}) == 3);
}
