// SPDX-License-Identifier: Apache-2.0
// Reads and checks the token file, and creates it in the user's home directory if it does not
// exist. fault_of_token_file and take_token are pure; the other functions do I/O.
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
// A minimum length is required because an attacker with a recorded handshake can test guesses
// offline.
inline constexpr std::size_t kMinTokenBytes = 16;
inline constexpr std::size_t kMadeTokenBytes = 32;  // random bytes, written in hexadecimal

struct TokenFileFacts {
  bool is_regular = true;
  uid_t owner = 0;
  mode_t mode = 0600;
  std::optional<uid_t> link_owner{};  // set if the path itself is a symbolic link
  bool is_shared = false;             // the user vouches for the file's access control
};

// Why this file is unsafe, and what to do. Empty if it is safe.
[[nodiscard]] std::string fault_of_token_file(const TokenFileFacts& facts, uid_t self);

// Strips the trailing newline that editors and shells add. Error: usage; the message never contains
// any part of the token.
[[nodiscard]] Result<std::string> take_token(std::string_view content);

struct Token {
  std::string secret;     // empty if there is none
  std::string why_none;   // why there is no secret
  bool is_local = false;  // other hosts cannot have the same secret
};

// True if other hosts may share a file system with this type, as reported by statfs().
[[nodiscard]] bool is_network_file_system(std::uint32_t type);

// Reads the token. In the home directory, the file is created if it does not exist and the
// directory is writable. If several nodes share the directory and start at the same time, one
// creates the file and all read the same token. An existing but unusable file is an error. There is
// no token if the home directory is not writable or belongs to another user.
[[nodiscard]] Result<Token> read_token(const TokenSource& source);

// Returns 64 random hexadecimal digits.
[[nodiscard]] std::string make_token();

}  // namespace muster
