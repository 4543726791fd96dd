// SPDX-License-Identifier: Apache-2.0
// Builds the input and parses the output of MUNGE's two programs: `munge` seals a secret for one
// user on all hosts with the same munge.key, and `unmunge` opens it there. Pure.
#pragma once

#include "base/error.hpp"

#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace muster {

// A program to run, and the standard input for it.
struct MungeCall {
  std::vector<std::string> argv;
  std::string input;
  bool operator==(const MungeCall&) const = default;
};

[[nodiscard]] MungeCall seal_call(const std::string& secret, uid_t self);
[[nodiscard]] MungeCall open_call(const std::string& credential);

// Parses the program's complete output, including standard error. Error: not_possible, with MUNGE's
// own message if there is one.
[[nodiscard]] Result<std::string> take_credential(std::string_view printed);
// Returns the secret only if this user created the credential for this purpose.
[[nodiscard]] Result<std::string> take_secret(std::string_view printed, uid_t self);

}  // namespace muster
