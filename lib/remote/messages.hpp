// SPDX-License-Identifier: Apache-2.0
// The structured payloads of frames. An invalid payload is a protocol error. Pure.
#pragma once

#include "remote/frames.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

// The first message from the launcher: the receiver's index, the following hosts on which it must
// start agents, and the remote shell and command line to use.
struct SetupMessage {
  std::uint16_t host = 0;
  std::string name;        // as typed by the user
  bool binds = false;      // reserve a port for the rendezvous
  std::string port_range;  // "A-B"; empty if any port will do
  int fanout = 0;
  int retry_seconds = 0;  // how long to retry transient failures of remote shells
  std::string command;    // one word for the remote shell, quoted for a POSIX shell
  std::vector<std::string> rsh;
  std::vector<std::string> targets;  // hosts host+1, host+2, …
  bool operator==(const SetupMessage&) const = default;
};

// Sent to the launcher: the agent is running.
struct HelloMessage {
  std::string version;
  std::string address;     // address at which the remote shell reached it, or empty
  std::uint16_t port = 0;  // reserved for the rendezvous, if requested
  std::string caller{};    // source address of the connection, or empty
  bool operator==(const HelloMessage&) const = default;
};

// Sent by the launcher: the command to run on that host.
struct StartMessage {
  std::string folder;                    // working directory
  std::vector<std::string> args;         // the launcher's arguments without its own name
  std::vector<std::string> environment;  // "NAME=value" strings, which override existing variables
  std::string token{};                   // job token, passed on standard input; empty if none
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
