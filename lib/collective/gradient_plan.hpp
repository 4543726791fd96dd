// SPDX-License-Identifier: Apache-2.0
// GradientPlan: assigns gradients to buckets. A bucket has one element type and is filled in order
// of readiness. Buckets are numbered in the order in which they fill up, and all ranks launch them
// in this order. Pure; value type.
#pragma once

#include "collective/types.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace muster::collective {

struct GradientParameter {
  std::string name;
  DType dtype = DType::f32;
  std::size_t count = 0;  // elements

  bool operator==(const GradientParameter&) const = default;
};

struct GradientBucket {
  DType dtype = DType::f32;
  std::size_t count = 0;  // elements, including padding between gradients
  std::vector<int> parameters;

  bool operator==(const GradientBucket&) const = default;
};

struct GradientPlace {
  int bucket = 0;
  std::size_t first = 0;  // first element in the bucket

  bool operator==(const GradientPlace&) const = default;
};

struct GradientPlan {
  std::vector<GradientBucket> buckets;
  std::vector<GradientPlace> places;  // one per parameter

  bool operator==(const GradientPlan&) const = default;
};

struct BucketLimits {
  std::size_t first = 1UL << 20;  // bytes; small, so that communication starts early
  // Limit on the size of the other buckets; a larger parameter gets its own bucket. 0 means 2 MiB
  // on the host and 25 MiB on GPUs. On the host an operation costs only microseconds, and small
  // buckets leave less to reduce after the backward pass.
  std::size_t cap = 0;
};

// `order` lists all parameters in the order in which they become ready.
[[nodiscard]] GradientPlan plan_gradients(const std::vector<GradientParameter>& parameters,
                                          const std::vector<int>& order,
                                          const BucketLimits& limits);

// Lists the parameters in reverse order of registration, which approximates the order in which a
// backward pass makes them ready.
[[nodiscard]] std::vector<int> reverse_order(std::size_t parameters);

// Hashes a parameter for comparison between ranks. Not cryptographically secure.
[[nodiscard]] std::uint64_t hash_of(const GradientParameter& parameter);

}  // namespace muster::collective
