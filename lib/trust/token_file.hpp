// SPDX-License-Identifier: Apache-2.0
// The file that a token is in: read and checked, and made in the user's home where it is missing.
// fault_of_token_file and take_token are pure; the others do the input and output.
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
// Who has seen a handshake can try guesses without asking anybody.
inline constexpr std::size_t kMinTokenBytes = 16;
inline constexpr std::size_t kMadeTokenBytes = 32;  // at random, written as twice as many digits

struct TokenFileFacts {
  bool is_regular = true;
  uid_t owner = 0;
  mode_t mode = 0600;
  std::optional<uid_t> link_owner{};  // if the path itself is a symbolic link
  bool is_shared = false;             // the user vouches for who can use it
};

// Why nobody may rely on this file, and what to do; empty: it is good.
[[nodiscard]] std::string fault_of_token_file(const TokenFileFacts& facts, uid_t self);

// Without the line end that editors and shells add. Error: usage, without a word of the token.
[[nodiscard]] Result<std::string> take_token(std::string_view content);

struct Token {
  std::string secret;     // empty: none
  std::string why_none;   // in words
  bool is_local = false;  // in a home that other machines cannot share
};

// By the type that statfs() reports: other machines may have this file system as well.
[[nodiscard]] bool is_network_file_system(std::uint32_t type);

// Reads it. In the home it is made first if it is missing and can be made: of many nodes that
// share it and start at one time, one makes it and all read the same. A file that is there and
// cannot be used is an error. A home that cannot be written to, or is another user's, is none.
[[nodiscard]] Result<Token> read_token(const TokenSource& source);

// 64 random hexadecimal digits.
[[nodiscard]] std::string make_token();

}  // namespace muster
