// SPDX-License-Identifier: Apache-2.0
// The parsed command line of muster-store. Parsing has no side effects. Used by main.
#pragma once

#include "base/error.hpp"

#include <cstdint>
#include <optional>
#include <string>

#include <sys/types.h>

namespace muster {

struct StoreOptions {
  std::string bind = "127.0.0.1";
  std::uint16_t port = 29500;
  std::string port_file;             // empty: write no file
  std::optional<uid_t> user;         // local user who may connect; if unset, the current user
  bool open = false;                 // any user on this host may connect
  std::optional<std::string> print;  // text for --help or --version
};

// Error: usage, with one line that names the option.
[[nodiscard]] Result<StoreOptions> parse_store_options(int argc, const char* const* argv);

}  // namespace muster
