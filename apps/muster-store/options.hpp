// SPDX-License-Identifier: Apache-2.0
// The command line of muster-store as a value. Parsing starts nothing. Used by main.
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
  std::string port_file;             // empty: none
  std::optional<uid_t> user;         // who may connect from this machine; none: who started it
  bool open = false;                 // anybody may
  std::optional<std::string> print;  // --help or --version: print this and end
};

// Error: usage, one line that names the option.
[[nodiscard]] Result<StoreOptions> parse_store_options(int argc, const char* const* argv);

}  // namespace muster
