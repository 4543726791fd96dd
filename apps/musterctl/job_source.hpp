// SPDX-License-Identifier: Apache-2.0
// JobSource: one running job that can be asked: found on this machine by its Unix socket, or at an
// address from elsewhere. Value.
#pragma once

#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"
#include "http/client.hpp"

#include <optional>
#include <string>

namespace muster {

// Of the Host header on a job's Unix socket.
inline constexpr const char* kJobSocketHost = "localhost";

struct JobSource {
  std::string socket;                // abstract name; empty: `endpoint`
  std::optional<Endpoint> endpoint;  // of --endpoint
  std::string key{};                 // of --http-key; empty: none

  // Begins a GET. Errors: those of connecting and of HttpStream::get; not_possible, where a key is
  // missing or wrong; protocol, where it is refused.
  [[nodiscard]] Result<HttpStream> ask(const std::string& target, TimePoint deadline) const;

  // The whole answer.
  [[nodiscard]] Result<std::string> get(const std::string& target, Duration timeout) const;
};

// Connects without waiting. Anybody may listen on such a name: only our own user's launchers are
// believed; root asks all. Errors: timed_out (the backlog is full: a later try may succeed),
// unreachable, not_possible (another user's).
[[nodiscard]] Result<UniqueFd> connect_job_socket(const std::string& name);

}  // namespace muster
