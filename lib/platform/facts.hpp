// SPDX-License-Identifier: Apache-2.0
// PlatformFacts: all that detect() may look at, and the strict readers of single variables. An
// environment is hostile: empty values, "(null)", "tcp://…" of Kubernetes' service links and
// numbers with anything behind them are no values. Value type, pure.
#pragma once

#include "base/environ.hpp"
#include "base/error.hpp"
#include "platform/platform_plan.hpp"

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// Longer values are no names, addresses or numbers.
inline constexpr std::size_t kWordMax = 512;

struct PlatformFacts {
  Environ environ;
  std::string hostname;  // of the kernel: HOSTNAME is another machine's under srun
  std::function<std::vector<std::string>()> addresses;  // of this machine, loopback included
  std::function<Result<std::string>(const std::string& path)> read_file;
  // torchrun's rules: variables that carry no platform's mark (bare WORLD_SIZE) are not read.
  bool only_marked = false;

  [[nodiscard]] bool has(std::string_view name) const;
  [[nodiscard]] bool has_all(std::initializer_list<std::string_view> names) const;

  // Not empty, not "(null)"; as it is.
  [[nodiscard]] std::optional<Said<std::string>> text(std::string_view name) const;
  // Besides: no blanks, no control characters, at most kWordMax.
  [[nodiscard]] std::optional<Said<std::string>> word(std::string_view name) const;
  // Digits only, from `least` to `most`.
  [[nodiscard]] std::optional<Said<int>> number(std::string_view name,
                                                int least = 0,
                                                int most = std::numeric_limits<int>::max()) const;
  [[nodiscard]] std::optional<Said<std::uint16_t>> port(std::string_view name) const;

  // The number of machines by the names that can mean nothing else: NNODES, NUM_NODES.
  [[nodiscard]] std::optional<Said<int>> machines() const;

  // Why MASTER_PORT is none though it is set: a Service named "master" in the pod's namespace.
  [[nodiscard]] std::optional<std::string> service_link() const;

  // Whether `name` means this machine: equal without regard to case, one the other's first label,
  // or one of its addresses.
  [[nodiscard]] bool is_me(std::string_view name) const;
  // The index of this machine among them; none where it is not there.
  [[nodiscard]] std::optional<int> my_place(const std::vector<std::string>& names) const;
};

}  // namespace muster
