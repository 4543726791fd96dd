// SPDX-License-Identifier: Apache-2.0
// Error: a runtime failure as a value, with one readable sentence: what failed, on what, why, and
// what to do. It is returned up the call chain in Result<T> and printed once, by the code that
// handles it. Value type.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace muster {

// The kind of failure. It determines the launcher's exit code (agent/failures/job_result.cpp).
enum class Errc {
  usage,         // an error in the user's command line or settings
  system,        // a system call failed
  not_found,     // a file, program or name does not exist
  not_possible,  // exists, but cannot be used this way (not executable, no permission)
  unreachable,   // no response from another machine or process
  timed_out,
  exhausted,  // a limit of this process or machine is reached; a retry does not help
  closed,     // the other end closed the connection
  protocol,   // data that violates a wire format or one of its limits
  internal,   // a bug in muster
};

struct Error {
  Errc code = Errc::internal;
  std::string message;

  // Returns the same error, prefixed with the activity: "starting rank 3: …".
  [[nodiscard]] Error during(std::string_view what) const;
  bool operator==(const Error&) const = default;
};

template <class T>
using Result = std::expected<T, Error>;

// Creates the unexpected side of a Result.
[[nodiscard]] std::unexpected<Error> failure(Errc code, std::string message);

// An error for a failed system call: "<what>: <strerror(errno_value)>". If the process is out of
// descriptors, the code is Errc::exhausted and the message includes the limit.
[[nodiscard]] Error system_error(std::string_view what, int errno_value);

// The message for an errno value. Does not use strerror's static buffer.
[[nodiscard]] std::string errno_text(int errno_value);

}  // namespace muster

// Returns from the calling function if a std::expected holds an error, and passes that error on.
// The argument is an expression whose value is not needed, or a variable that is used afterwards:
//   auto port = parse_port(text);
//   MUSTER_RETURN_IF_ERROR(port);
#define MUSTER_RETURN_IF_ERROR(...)                                                         \
  do {                                                                                      \
    if (auto&& muster_result = (__VA_ARGS__); !muster_result) {                             \
      return std::unexpected(std::forward<decltype(muster_result)>(muster_result).error()); \
    }                                                                                       \
  } while (false)
