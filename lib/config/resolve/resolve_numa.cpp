// SPDX-License-Identifier: Apache-2.0
// --numa-binding: converts the policy to CPU and memory masks for the workers on this node.
#include "base/check.hpp"
#include "config/resolve/resolution.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

namespace muster {
namespace {

constexpr auto kPolicies = std::to_array<std::pair<std::string_view, NumaPolicy>>({
    {"none", NumaPolicy::none},
    {"auto", NumaPolicy::automatic},
    {"node", NumaPolicy::node},
    {"socket", NumaPolicy::socket},
    {"exclusive", NumaPolicy::exclusive},
    {"core-complex", NumaPolicy::core_complex},
});

// The policy and, for auto, its result. The masks are on separate lines of --explain.
void show_policy(const Resolution& r) {
  const NumaPlan& plan = r.config().numa_plan;
  if (!plan.reason.empty()) {
    r.show(OptionId::numa_binding,
           fmt::format("{} ({}{})",
                       r.layers.text(OptionId::numa_binding),
                       plan.ranks.empty() ? "none: " : "",
                       plan.reason));
  }
}

// If the platform starts one launcher per worker, only the platform knows which CPUs the other
// workers use.
Result<void> leave_to_platform(const Resolution& r, NumaPolicy policy) {
  if (policy == NumaPolicy::automatic) {
    r.config().numa_plan.reason = r.config().platform.what + " binds its tasks";
    show_policy(r);
    return {};
  }
  return r.layers.refuse(
      OptionId::numa_binding,
      fmt::format("{} started one launcher per worker, and each sees only its own worker; use the "
                  "platform's binding (srun --cpu-bind, mpirun --bind-to) or start one launcher "
                  "per node",
                  r.config().platform.what));
}

}  // namespace

Result<void> resolve_numa(const Resolution& r) {
  const auto row = std::ranges::find(kPolicies,
                                     r.layers.text(OptionId::numa_binding),
                                     &std::pair<std::string_view, NumaPolicy>::first);
  MUSTER_CHECK(row != kPolicies.end());  // already checked against the table's choices
  if (row->second == NumaPolicy::none) {
    return {};
  }
  if (r.config().task) {
    return leave_to_platform(r, row->second);
  }
  auto plan = r.machine.numa_plan(row->second, r.config().nproc, r.environ);
  if (!plan) {
    return r.layers.refuse(OptionId::numa_binding, plan.error().message);
  }
  r.config().numa_plan = std::move(*plan);
  show_policy(r);
  return {};
}

}  // namespace muster
