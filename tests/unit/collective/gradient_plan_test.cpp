// SPDX-License-Identifier: Apache-2.0
#include "collective/gradient_plan.hpp"

#include "support/catch.hpp"

namespace muster::collective {
namespace {

std::vector<GradientParameter> floats(std::vector<std::size_t> counts) {
  std::vector<GradientParameter> out;
  for (const std::size_t count : counts) {
    out.push_back({"p" + std::to_string(out.size()), DType::f32, count});
  }
  return out;
}

std::vector<std::vector<int>> contents(const GradientPlan& plan) {
  std::vector<std::vector<int>> out;
  for (const auto& bucket : plan.buckets) {
    out.push_back(bucket.parameters);
  }
  return out;
}

using Contents = std::vector<std::vector<int>>;

TEST_CASE(
    "gradient plan: fills buckets from the last gradient, a small one first, then up to the cap") {
  const auto parameters = floats({16, 16, 16, 16, 16, 16});  // 64 bytes each
  const BucketLimits limits{.first = 64, .cap = 128};
  CHECK(contents(plan_gradients(parameters, reverse_order(6), limits)) ==
        Contents{{5}, {4, 3}, {2, 1}, {0}});
}

TEST_CASE("gradient plan: gradients begin on cache lines, and a large one gets its own bucket") {
  const auto parameters = floats({1, 100, 3});
  const GradientPlan plan =
      plan_gradients(parameters, reverse_order(3), {.first = 128, .cap = 128});
  CHECK(contents(plan) == Contents{{2}, {1}, {0}});
  const GradientPlan one = plan_gradients(parameters, reverse_order(3), {});
  REQUIRE(one.buckets.size() == 1);
  CHECK(one.buckets[0].count == 16 + 112 + 16);
  CHECK(one.places == std::vector<GradientPlace>{{0, 128}, {0, 16}, {0, 0}});
}

TEST_CASE("gradient plan: types are not mixed, and buckets are numbered by when they become full") {
  auto parameters = floats({16, 16, 16, 16});
  parameters[1].dtype = DType::bf16;
  parameters[3].dtype = DType::bf16;
  const GradientPlan plan =
      plan_gradients(parameters, reverse_order(4), {.first = 4096, .cap = 4096});
  CHECK(contents(plan) == Contents{{3, 1}, {2, 0}});
}

TEST_CASE("gradient plan: no gradients, and empty gradients") {
  CHECK(plan_gradients({}, {}, {}).buckets.empty());
  const GradientPlan plan = plan_gradients(floats({0, 0}), reverse_order(2), {});
  CHECK(contents(plan) == Contents{{1, 0}});
  CHECK(plan.buckets[0].count == 0);
}

TEST_CASE("gradient plan: any difference in a parameter changes its hash") {
  const GradientParameter one{"w", DType::f32, 10};
  CHECK(hash_of(one) == hash_of(GradientParameter{"w", DType::f32, 10}));
  CHECK(hash_of(one) != hash_of(GradientParameter{"v", DType::f32, 10}));
  CHECK(hash_of(one) != hash_of(GradientParameter{"w", DType::f16, 10}));
  CHECK(hash_of(one) != hash_of(GradientParameter{"w", DType::f32, 11}));
}

}  // namespace
}  // namespace muster::collective
