// SPDX-License-Identifier: Apache-2.0
// PlatformFacts: the inputs of detect(), and strict parsers for single variables. The environment
// is untrusted: empty values, "(null)", "tcp://…" from Kubernetes' service links and numbers with
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
  std::string hostname;  // from the kernel: under srun, HOSTNAME is another host's
  std::function<std::vector<std::string>()> addresses;  // of this host, loopback included
  std::function<Result<std::string>(const std::string& path)> read_file;
  // torchrun's rules: variables without a platform's prefix (bare WORLD_SIZE) are not read.
  bool only_marked = false;

  [[nodiscard]] bool has(std::string_view name) const;
  [[nodiscard]] bool has_all(std::initializer_list<std::string_view> names) const;

  // The unchanged value if it is not empty and not "(null)".
  [[nodiscard]] std::optional<Said<std::string>> text(std::string_view name) const;
  // Like text(), but without blanks and control characters, and at most kWordMax.
  [[nodiscard]] std::optional<Said<std::string>> word(std::string_view name) const;
  // Digits only, from `least` to `most`.
  [[nodiscard]] std::optional<Said<int>> number(std::string_view name,
                                                int least = 0,
                                                int most = std::numeric_limits<int>::max()) const;
  [[nodiscard]] std::optional<Said<std::uint16_t>> port(std::string_view name) const;

  // The number of nodes from the unambiguous variables NNODES and NUM_NODES.
  [[nodiscard]] std::optional<Said<int>> machines() const;

  // The reason why a set MASTER_PORT is not a port: a Service named "master" in the pod's
  // namespace.
  [[nodiscard]] std::optional<std::string> service_link() const;

  // True if `name` refers to this host: equal ignoring case, one the first label of the other, or
  // one of the host's addresses.
  [[nodiscard]] bool is_me(std::string_view name) const;
  // The index of this host in the list; none if it is not there.
  [[nodiscard]] std::optional<int> my_place(const std::vector<std::string>& names) const;
};

}  // namespace muster
