// SPDX-License-Identifier: Apache-2.0
// Error: an operating failure as a value, with one sentence for people: what failed, on what, why,
// what to do. Passed upwards in Result<T>; printed once, by whoever handles it. Value type.
#pragma once

#include <expected>
#include <string>
#include <string_view>

namespace muster {

// What kind of failure it is; decides the launcher's exit code (agent/failures/job_result.cpp).
enum class Errc {
  usage,         // the user's command line or settings
  system,        // a system call failed
  not_found,     // a file, program or name does not exist
  not_possible,  // exists, but cannot be used so (not executable, permission)
  unreachable,   // no answer from another machine or process
  timed_out,
  exhausted,  // a limit of this process or machine is reached: nobody's fault, and no retry helps
  closed,     // the other side ended the connection
  protocol,   // bytes that break a wire format or one of its limits
  internal,   // a bug of ours that was caught
};

struct Error {
  Errc code = Errc::internal;
  std::string message;

  // The same error with what was being done in front: "starting rank 3: …".
  [[nodiscard]] Error during(std::string_view what) const;
  bool operator==(const Error&) const = default;
};

template <class T>
using Result = std::expected<T, Error>;

// Makes the unexpected side of a Result.
[[nodiscard]] std::unexpected<Error> failure(Errc code, std::string message);

// A failed system call: "<what>: <strerror(errno_value)>". Where we have no descriptor left, it is
// exhausted, with the limit.
[[nodiscard]] Error system_error(std::string_view what, int errno_value);

// The text for an errno value, without strerror's static buffer.
[[nodiscard]] std::string errno_text(int errno_value);

}  // namespace muster
