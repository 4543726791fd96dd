// SPDX-License-Identifier: Apache-2.0
// Error: a runtime failure as a value, with one readable sentence: what failed, on what, why, and
// what to do. Passed up in Result<T>; printed once, by the code that handles it. Value type.
#pragma once

#include <expected>
#include <string>
#include <string_view>

namespace muster {

// The kind of failure; determines the launcher's exit code (agent/failures/job_result.cpp).
enum class Errc {
  usage,         // the user's command line or settings
  system,        // a system call failed
  not_found,     // a file, program or name does not exist
  not_possible,  // exists, but cannot be used this way (not executable, permission)
  unreachable,   // no answer from another machine or process
  timed_out,
  exhausted,  // a limit of this process or machine is reached; a retry does not help
  closed,     // the other end closed the connection
  protocol,   // bytes that break a wire format or one of its limits
  internal,   // a bug in muster, detected
};

struct Error {
  Errc code = Errc::internal;
  std::string message;

  // The same error, prefixed with the activity: "starting rank 3: …".
  [[nodiscard]] Error during(std::string_view what) const;
  bool operator==(const Error&) const = default;
};

template <class T>
using Result = std::expected<T, Error>;

// Makes the unexpected side of a Result.
[[nodiscard]] std::unexpected<Error> failure(Errc code, std::string message);

// A failed system call: "<what>: <strerror(errno_value)>". If the process is out of descriptors,
// the code is exhausted and the text includes the limit.
[[nodiscard]] Error system_error(std::string_view what, int errno_value);

// The text for an errno value, without strerror's static buffer.
[[nodiscard]] std::string errno_text(int errno_value);

}  // namespace muster
