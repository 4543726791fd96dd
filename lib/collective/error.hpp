// SPDX-License-Identifier: Apache-2.0
// Errors of the collective library: the cause, the failed rank and the operation. After
// peer_failed, timeout, aborted, mismatch, system, cuda and nccl the communicator is dead until it
// is rebuilt; other errors leave it unchanged. Value type.
#pragma once

#include "base/error.hpp"

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

namespace muster::collective {

// The C ABI uses the same numbers, negated, so they never change.
enum class Errc : std::uint8_t {
  ok = 0,
  timeout = 1,           // deadline expired; `rank` is the first missing rank
  peer_failed = 2,       // `rank` died, or its host is unreachable
  aborted = 3,           // a rank called abort(); the text contains the rank and the reason
  mismatch = 4,          // ranks passed different arguments; the text contains both
  invalid_argument = 5,  // rejected before anything was sent
  invalid_state = 6,     // the communicator is dead, or this process was forked from its owner
  unsupported = 7,       // not supported by this backend or machine; the text gives the reason
  store = 8,             // the rendezvous store failed
  system = 9,            // a system call failed; `native` is errno
  cuda = 10,             // `native` is the CUresult
  nccl = 11,             // `native` is the ncclResult_t
};

struct Error {
  Errc code = Errc::ok;
  int rank = -1;            // failed rank, if known; -1 for no particular rank
  std::uint64_t epoch = 0;  // the communicator's epoch
  std::uint64_t seq = 0;    // operation number; 0 if not in an operation
  int native = 0;
  std::string text = {};  // one sentence; names the rank and the operation

  bool operator==(const Error&) const = default;
};

template <class T>
using Result = std::expected<T, Error>;

[[nodiscard]] inline std::unexpected<Error> failure(Errc code, std::string text) {
  return std::unexpected(Error{.code = code, .text = std::move(text)});
}

// Whether the communicator must be rebuilt after this error.
[[nodiscard]] bool is_fatal(Errc code);

// Example: "peer_failed".
[[nodiscard]] std::string_view name_of(Errc code);

// Wraps an error of a lower layer (store, sockets); `doing` becomes the prefix.
[[nodiscard]] Error wrap(Errc code, std::string_view doing, const muster::Error& error);

// A failed system call: "<doing>: <errno text>".
[[nodiscard]] Error system_failure(std::string_view doing, int errno_value);

}  // namespace muster::collective
