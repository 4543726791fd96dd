// SPDX-License-Identifier: Apache-2.0
// GradientPlan: which gradients travel together. Buckets hold one type each, are filled in the
// order in which gradients become ready, and are numbered by when they are full: in this order they
// are launched, the same on all ranks. Pure; value type.
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
  std::size_t count = 0;  // elements, with what lies between the gradients
  std::vector<int> parameters;

  bool operator==(const GradientBucket&) const = default;
};

struct GradientPlace {
  int bucket = 0;
  std::size_t first = 0;  // element of the bucket

  bool operator==(const GradientPlace&) const = default;
};

struct GradientPlan {
  std::vector<GradientBucket> buckets;
  std::vector<GradientPlace> places;  // of each parameter

  bool operator==(const GradientPlan&) const = default;
};

struct BucketLimits {
  std::size_t first = 1UL << 20;  // bytes: small, so that communication begins early
  // Of the others; a parameter that is larger has a bucket of its own. 0: 2 MiB on the host, where
  // an operation costs microseconds, so that less is left for the end; 25 MiB on GPUs.
  std::size_t cap = 0;
};

// `order`: all parameters, by when they become ready.
[[nodiscard]] GradientPlan plan_gradients(const std::vector<GradientParameter>& parameters,
                                          const std::vector<int>& order,
                                          const BucketLimits& limits);

// From the last registered to the first: roughly how a backward pass comes by.
[[nodiscard]] std::vector<int> reverse_order(std::size_t parameters);

// Equal for equal parameters; not for secrets.
[[nodiscard]] std::uint64_t hash_of(const GradientParameter& parameter);

}  // namespace muster::collective
