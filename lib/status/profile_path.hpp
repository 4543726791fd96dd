// SPDX-License-Identifier: Apache-2.0
// The path that musterctl profile requests from a launcher. It is served only on the launcher's
// Unix socket. The response is empty if the request was queued for PyTorch, otherwise it is the
// reason why it was refused. Functions without state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

// A trace of one rank, which its own process records. Either `steps` or `milliseconds` is positive.
struct ProfileRequest {
  int rank = 0;
  std::int64_t steps = 0;
  std::int64_t milliseconds = 0;
  std::int64_t start = 0;  // of `milliseconds`; Unix time in ms
  std::string file{};  // absolute path that ends with ".json"; the process inserts "_PID" before
  bool operator==(const ProfileRequest&) const = default;
};

// True for an absolute path that can be a line of Kineto's configuration. Such a line is a name and
// a value with one "=" between them, and ends at a "#".
[[nodiscard]] bool is_trace_path(std::string_view path);

[[nodiscard]] std::string profile_path(const ProfileRequest& request);

// Nullopt if the path is malformed or is not a profile path.
[[nodiscard]] std::optional<ProfileRequest> profile_request(std::string_view path);

}  // namespace muster
