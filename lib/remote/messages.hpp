// SPDX-License-Identifier: Apache-2.0
// Structured payloads of frames. Invalid payloads cause a protocol error. Pure.
#pragma once

#include "remote/frames.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

// Down, first: the receiver's index, and the following hosts on which it must start agents, with
// the remote shell and command line for that.
struct SetupMessage {
  std::uint16_t host = 0;
  std::string name;        // as typed
  bool binds = false;      // reserve a port for the rendezvous
  std::string port_range;  // "A-B"; empty: any
  int fanout = 0;
  int retry_seconds = 0;  // how long to retry transient failures of remote shells
  std::string command;    // one word for the remote shell, quoted for a POSIX shell
  std::vector<std::string> rsh;
  std::vector<std::string> targets;  // hosts host+1, host+2, …
  bool operator==(const SetupMessage&) const = default;
};

// Up: the agent is running.
struct HelloMessage {
  std::string version;
  std::string address;     // at which the remote shell reached it; empty: unknown
  std::uint16_t port = 0;  // reserved for the rendezvous, if requested
  std::string caller{};    // source address of the connection; empty: unknown
  bool operator==(const HelloMessage&) const = default;
};

// Down: what to run on that host.
struct StartMessage {
  std::string folder;                    // working directory
  std::vector<std::string> args;         // of the launcher, without its own name
  std::vector<std::string> environment;  // "NAME=value", overrides existing variables
  std::string token{};                   // job token, passed on standard input; empty: none
  bool one_sink = false;                 // stdout and stderr share one pipe, sent as error_output
  bool operator==(const StartMessage&) const = default;
};

[[nodiscard]] std::string encode(const SetupMessage& message);
[[nodiscard]] std::string encode(const HelloMessage& message);
[[nodiscard]] std::string encode(const StartMessage& message);
[[nodiscard]] Result<SetupMessage> decode_setup(std::string_view payload);
[[nodiscard]] Result<HelloMessage> decode_hello(std::string_view payload);
[[nodiscard]] Result<StartMessage> decode_start(std::string_view payload);

}  // namespace muster
