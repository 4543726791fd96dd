// SPDX-License-Identifier: Apache-2.0
#include "examples/digits/exact_sum.hpp"

#include "support/catch.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <random>
#include <set>

namespace digits {
namespace {

using Terms = std::array<float, 4>;

// The sums of four terms as computed by 1, 2 and 4 ranks, and in every other order.
std::set<std::uint32_t> sums_of(Terms terms) {
  std::set<std::uint32_t> out;
  std::array<std::size_t, 4> order{0, 1, 2, 3};
  do {
    const auto [a, b, c, d] = order;
    const float first = terms[a] + terms[b];
    out.insert(std::bit_cast<std::uint32_t>(first + terms[c] + terms[d]));
    out.insert(std::bit_cast<std::uint32_t>(first + (terms[c] + terms[d])));
  } while (std::ranges::next_permutation(order).found);
  return out;
}

constexpr float kStep = 0x1p-20F;

}  // namespace

TEST_CASE("examples: sums of terms on a grid do not depend on their order") {
  const Grid<float> grid(kStep, 4);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  int different = 0;
  for (int round = 0; round < 2000; ++round) {
    Terms terms;
    for (float& term : terms) {
      term = normal(random);
    }
    different += sums_of(terms).size() > 1 ? 1 : 0;
    for (float& term : terms) {
      term = grid.nearest(term);
    }
    REQUIRE(sums_of(terms).size() == 1);
  }
  CHECK(different > 1000);  // without the grid, most sums do
}

TEST_CASE("examples: as many terms as were promised cannot leave the grid") {
  for (const std::size_t count : {1UL, 3UL, 4UL, 1000UL}) {
    const Grid<float> grid(kStep, count);
    const float most = grid.nearest(1e30F);
    CHECK(most == grid.limit());
    CHECK(grid.nearest(-1e30F) == -most);
    CHECK(grid.nearest(most) == most);
    // In f64 these sums are exact, and f32 must give the same result.
    float sum = 0;
    double exact = 0;
    for (std::size_t i = 0; i < count; ++i) {
      sum += i % 2 == 0 ? most : most - kStep;
      exact += static_cast<double>(i % 2 == 0 ? most : most - kStep);
    }
    CHECK(static_cast<double>(sum) == exact);
  }
}

TEST_CASE("examples: the nearest point of a grid") {
  const Grid<double> grid(0.25, 8);
  CHECK(grid.nearest(1.1) == 1.0);
  CHECK(grid.nearest(-1.2) == -1.25);
  CHECK(grid.nearest(0.125) == 0.0);  // ties go to the even neighbour
  CHECK(grid.nearest(0.375) == 0.5);
  CHECK(std::isnan(grid.nearest(std::numeric_limits<double>::quiet_NaN())));
  CHECK(grid.limit() == 0x1p53 / 8 * 0.25);
}

}  // namespace digits
