// SPDX-License-Identifier: Apache-2.0
// What is said to MUNGE's two programs, and what their answers mean: `munge` seals a secret for one
// user on all machines that have the same munge.key, `unmunge` opens it there. Pure.
#pragma once

#include "base/error.hpp"

#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace muster {

// A program to run, and what it reads from its standard input.
struct MungeCall {
  std::vector<std::string> argv;
  std::string input;
  bool operator==(const MungeCall&) const = default;
};

[[nodiscard]] MungeCall seal_call(const std::string& secret, uid_t self);
[[nodiscard]] MungeCall open_call(const std::string& credential);

// From all that the program has printed, also to its standard error. Error: not_possible, with
// MUNGE's own words if there are any.
[[nodiscard]] Result<std::string> take_credential(std::string_view printed);
// The secret; only if the credential was made by this user, for this purpose.
[[nodiscard]] Result<std::string> take_secret(std::string_view printed, uid_t self);

}  // namespace muster
