// SPDX-License-Identifier: Apache-2.0
// JobSource: a running job that can be queried, either on this host through its Unix socket or at a
// network address. Value.
#pragma once

#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"
#include "http/client.hpp"

#include <optional>
#include <string>

namespace muster {

// The Host header for requests to a job's Unix socket.
inline constexpr const char* kJobSocketHost = "localhost";

struct JobSource {
  std::string socket;                // abstract name; if empty, use `endpoint`
  std::optional<Endpoint> endpoint;  // from --endpoint
  std::string key{};                 // from --http-key; empty if not given

  // Starts a GET. Errors: those of connecting and of HttpStream::get; not_possible if the key is
  // missing or wrong; protocol for any status other than 200.
  [[nodiscard]] Result<HttpStream> ask(const std::string& target, TimePoint deadline) const;

  // The complete response body.
  [[nodiscard]] Result<std::string> get(const std::string& target, Duration timeout) const;
};

// Connects without blocking. Any user may listen on such a name, so only launchers of our own user
// are trusted; root may query all. Errors: timed_out (the backlog is full, a retry may succeed),
// unreachable, not_possible (the job belongs to another user).
[[nodiscard]] Result<UniqueFd> connect_job_socket(const std::string& name);

}  // namespace muster
