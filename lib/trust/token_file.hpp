// SPDX-License-Identifier: Apache-2.0
// Reads and checks the token file, and creates it in the user's home directory if it is missing.
// fault_of_token_file and take_token are pure; the others do I/O.
#pragma once

#include "base/error.hpp"
#include "trust/token_source.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <sys/types.h>

namespace muster {

inline constexpr std::size_t kMaxTokenBytes = 4096;
// An attacker with a recorded handshake can test guesses offline.
inline constexpr std::size_t kMinTokenBytes = 16;
inline constexpr std::size_t kMadeTokenBytes = 32;  // random, written as twice as many hex digits

struct TokenFileFacts {
  bool is_regular = true;
  uid_t owner = 0;
  mode_t mode = 0600;
  std::optional<uid_t> link_owner{};  // set if the path itself is a symbolic link
  bool is_shared = false;             // the user vouches for its access control
};

// The reason why this file is unsafe, and what to do; empty if it is safe.
[[nodiscard]] std::string fault_of_token_file(const TokenFileFacts& facts, uid_t self);

// Strips the line end that editors and shells add. Error: usage; never contains any of the token.
[[nodiscard]] Result<std::string> take_token(std::string_view content);

struct Token {
  std::string secret;     // empty if there is none
  std::string why_none;   // the reason why there is none
  bool is_local = false;  // in a home directory that other hosts cannot share
};

// From the type that statfs() reports: true if other hosts may share this file system.
[[nodiscard]] bool is_network_file_system(std::uint32_t type);

// Reads the token. In the home directory it is created if it is missing and can be created; if many
// nodes share it and start together, one creates it and all read the same. An existing but unusable
// file is an error. A home directory that is not writable or belongs to another user yields no
// token.
[[nodiscard]] Result<Token> read_token(const TokenSource& source);

// 64 random hexadecimal digits.
[[nodiscard]] std::string make_token();

}  // namespace muster
