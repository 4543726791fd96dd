// SPDX-License-Identifier: Apache-2.0
// TokenSource: where the job's secret comes from, which is the first of: what --token=none says,
// the file of --token-file or MUSTER_TOKEN_FILE, MUNGE, the file in the user's home. Decided before
// anything is opened, so that --explain can say it. Pure; value.
#pragma once

#include "base/environ.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace muster {

enum class TokenFrom : std::uint8_t { nowhere, file, home };

// With `wanted` a node has the token besides, for those nodes that have no MUNGE.
enum class MungeUse : std::uint8_t { none, wanted, demanded };

// Where munged listens, unless its administrator has moved it.
inline constexpr const char* kMungeSocket = "/run/munge/munge.socket.2";

struct TokenSource {
  TokenFrom from = TokenFrom::nowhere;
  std::string path;            // of the file; under home it may not be there yet
  std::string why_none;        // nowhere: the reason, in words
  std::string why_not_made{};  // home: a file that is missing stays so, for this reason
  MungeUse munge = MungeUse::none;
  bool is_off = false;       // --token=none
  bool is_shared = false;    // file: the user vouches for who can use it
  bool is_required = false;  // --token=require
  bool operator==(const TokenSource&) const = default;
};

struct TokenWish {
  bool off = false;        // --token=none
  std::string_view file;   // FILE or FILE,shared as given; empty: none
  bool munge = false;      // --token=munge
  bool has_munge = false;  // this machine has a munged's socket
  bool required = false;   // --token=require
};

// --token-file=FILE, or FILE,shared where the modes of its mount cannot be changed.
[[nodiscard]] TokenSource token_file_source(std::string_view given);

[[nodiscard]] TokenSource choose_token_source(const TokenWish& wish, const Environ& environ);

// "/home/u/.config/muster/token", for --explain and messages.
[[nodiscard]] std::string describe(const TokenSource& source);

}  // namespace muster
