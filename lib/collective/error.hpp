// SPDX-License-Identifier: Apache-2.0
// Error of the collective library: what failed, which rank is to blame, at which operation. After
// peer_failed, timeout, aborted, mismatch, system, cuda and nccl the communicator is dead until it
// is rebuilt; the others leave it as it was. Value type.
#pragma once

#include "base/error.hpp"

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace muster::collective {

// The numbers are part of the C ABI (there negative): they never change.
enum class Errc : std::uint8_t {
  ok = 0,
  timeout = 1,           // the deadline passed; `rank` is the first that did not come
  peer_failed = 2,       // `rank` has died, or its host cannot be reached
  aborted = 3,           // somebody called abort(); the text says who and why
  mismatch = 4,          // ranks called with different arguments; the text has both sides
  invalid_argument = 5,  // refused before anything was sent
  invalid_state = 6,     // the communicator is dead, or this process was forked from its owner
  unsupported = 7,       // not by this back end or machine; the text says what is missing
  store = 8,             // the rendezvous store failed
  system = 9,            // a system call failed; `native` is errno
  cuda = 10,             // `native` is the CUresult
  nccl = 11,             // `native` is the ncclResult_t
};

struct Error {
  Errc code = Errc::ok;
  int rank = -1;            // who failed, as far as known; -1: nobody in particular
  std::uint64_t epoch = 0;  // of the communicator
  std::uint64_t seq = 0;    // number of the operation; 0: outside of one
  int native = 0;
  std::string text = {};  // one sentence for people, names the rank and the operation

  bool operator==(const Error&) const = default;
};

template <class T>
using Result = std::expected<T, Error>;

[[nodiscard]] inline std::unexpected<Error> failure(Errc code, std::string text) {
  return std::unexpected(Error{.code = code, .text = std::move(text)});
}

// Whether a communicator that saw it must be rebuilt.
[[nodiscard]] bool is_fatal(Errc code);

// "peer_failed".
[[nodiscard]] std::string_view name_of(Errc code);

// An error of the rooms below (store, sockets), with what was being done in front.
[[nodiscard]] Error wrap(Errc code, std::string_view doing, const muster::Error& error);

// A failed system call: "<doing>: <text for errno>".
[[nodiscard]] Error system_failure(std::string_view doing, int errno_value);

}  // namespace muster::collective
