// SPDX-License-Identifier: Apache-2.0
// TokenSource: where the job's secret comes from. The first of these applies: --token=none, the
// file set with --token-file or MUSTER_TOKEN_FILE, MUNGE, the file in the home directory. Decided
// before any file is opened, so that --explain can print it. Pure; value.
#pragma once

#include "base/environ.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace muster {

enum class TokenFrom : std::uint8_t { nowhere, file, home };

// With `wanted`, a node uses the token as well, for connections to nodes without MUNGE.
enum class MungeUse : std::uint8_t { none, wanted, demanded };

// munged's default socket.
inline constexpr const char* kMungeSocket = "/run/munge/munge.socket.2";

struct TokenSource {
  TokenFrom from = TokenFrom::nowhere;
  std::string path;            // path of the file; with `home` it may not exist yet
  std::string why_none;        // with `nowhere`: the reason
  std::string why_not_made{};  // the reason not to create a missing file in the home directory
  MungeUse munge = MungeUse::none;
  bool is_off = false;       // --token=none
  bool is_shared = false;    // with `file`: the user vouches for the file's access control
  bool is_required = false;  // --token=require
  bool operator==(const TokenSource&) const = default;
};

struct TokenWish {
  bool off = false;        // --token=none
  std::string_view file;   // FILE or FILE,shared; empty if not set
  bool munge = false;      // --token=munge
  bool has_munge = false;  // munged's socket exists on this host
  bool required = false;   // --token=require
};

// Parses the value of --token-file: FILE, or FILE,shared if FILE is on a mount that does not allow
// changing modes.
[[nodiscard]] TokenSource token_file_source(std::string_view given);

[[nodiscard]] TokenSource choose_token_source(const TokenWish& wish, const Environ& environ);

// "/home/u/.config/muster/token", for --explain and messages.
[[nodiscard]] std::string describe(const TokenSource& source);

}  // namespace muster
