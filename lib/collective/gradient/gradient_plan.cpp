// SPDX-License-Identifier: Apache-2.0
#include "collective/gradient_plan.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace muster::collective {
namespace {

// Each gradient starts on a cache line.
constexpr std::size_t kAlign = 64;

std::size_t padded(const GradientParameter& p) {
  const std::size_t step = kAlign / size_of(p.dtype);
  return (p.count + step - 1) / step * step;
}

struct Open {
  std::vector<int> parameters;
  std::size_t bytes = 0;
};

GradientBucket close(const Open& open, const std::vector<GradientParameter>& parameters) {
  GradientBucket out;
  out.parameters = open.parameters;
  out.dtype = parameters[static_cast<std::size_t>(open.parameters[0])].dtype;
  for (const int id : open.parameters) {
    out.count += padded(parameters[static_cast<std::size_t>(id)]);
  }
  return out;
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  return (hash ^ value) * 1099511628211U;
}

}  // namespace

std::vector<int> reverse_order(std::size_t parameters) {
  std::vector<int> out(parameters);
  std::iota(out.rbegin(), out.rend(), 0);
  return out;
}

GradientPlan plan_gradients(const std::vector<GradientParameter>& parameters,
                            const std::vector<int>& order,
                            const BucketLimits& limits) {
  GradientPlan plan;
  plan.places.resize(parameters.size());
  std::map<DType, Open> open;
  const auto finish = [&](DType dtype) {
    plan.buckets.push_back(close(open[dtype], parameters));
    open.erase(dtype);
  };
  for (const int id : order) {
    const GradientParameter& p = parameters[static_cast<std::size_t>(id)];
    const std::size_t bytes = padded(p) * size_of(p.dtype);
    const std::size_t limit = plan.buckets.empty() ? limits.first : limits.cap;
    if (open.contains(p.dtype) && open[p.dtype].bytes + bytes > limit) {
      finish(p.dtype);
    }
    Open& mine = open[p.dtype];
    mine.parameters.push_back(id);
    mine.bytes += bytes;
    if (mine.bytes >= (plan.buckets.empty() ? limits.first : limits.cap)) {
      finish(p.dtype);
    }
  }
  // A bucket that is not full becomes ready with the last parameter assigned to it.
  while (!open.empty()) {
    const auto earliest = std::ranges::min_element(open, {}, [&order](const auto& entry) {
      return std::ranges::find(order, entry.second.parameters.back()) - order.begin();
    });
    finish(earliest->first);
  }
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    std::size_t first = 0;
    for (const int id : plan.buckets[b].parameters) {
      plan.places[static_cast<std::size_t>(id)] = {static_cast<int>(b), first};
      first += padded(parameters[static_cast<std::size_t>(id)]);
    }
  }
  return plan;
}

std::uint64_t hash_of(const GradientParameter& parameter) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char letter : parameter.name) {
    hash = mix(hash, static_cast<unsigned char>(letter));
  }
  return mix(mix(hash, static_cast<std::uint64_t>(parameter.dtype)), parameter.count);
}

}  // namespace muster::collective
