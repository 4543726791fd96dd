// SPDX-License-Identifier: Apache-2.0
// PlatformFacts: the inputs of detect(), and strict parsers for single variables. The environment
// is untrusted. Empty values, "(null)", "tcp://…" from Kubernetes service links and numbers with
// trailing characters count as unset. Value type, pure.
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

// Longer values are not names, addresses or numbers.
inline constexpr std::size_t kWordMax = 512;

struct PlatformFacts {
  Environ environ;
  std::string hostname;  // from the kernel; under srun, HOSTNAME may contain another host's name
  std::function<std::vector<std::string>()> addresses;  // this host's addresses, including loopback
  std::function<Result<std::string>(const std::string& path)> read_file;
  // Follow torchrun's rules: do not read variables without a platform's prefix (such as a bare
  // WORLD_SIZE).
  bool only_marked = false;

  [[nodiscard]] bool has(std::string_view name) const;
  [[nodiscard]] bool has_all(std::initializer_list<std::string_view> names) const;

  // The unchanged value if it is not empty and not "(null)".
  [[nodiscard]] std::optional<Said<std::string>> text(std::string_view name) const;
  // Like text(), but none if it contains blanks or control characters or is longer than kWordMax.
  [[nodiscard]] std::optional<Said<std::string>> word(std::string_view name) const;
  // An integer from `least` to `most` that consists only of digits.
  [[nodiscard]] std::optional<Said<int>> number(std::string_view name,
                                                int least = 0,
                                                int most = std::numeric_limits<int>::max()) const;
  [[nodiscard]] std::optional<Said<std::uint16_t>> port(std::string_view name) const;

  // The number of nodes from the unambiguous variables NNODES and NUM_NODES.
  [[nodiscard]] std::optional<Said<int>> machines() const;

  // Explains why MASTER_PORT is set but is not a port: the pod's namespace has a Service named
  // "master". None otherwise.
  [[nodiscard]] std::optional<std::string> service_link() const;

  // True if `name` refers to this host: it equals the host name (ignoring case), one of the two is
  // the first label of the other, or `name` is one of the host's addresses.
  [[nodiscard]] bool is_me(std::string_view name) const;
  // The index of this host in the list; none if it is not listed.
  [[nodiscard]] std::optional<int> my_place(const std::vector<std::string>& names) const;
};

}  // namespace muster
