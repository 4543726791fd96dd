// SPDX-License-Identifier: Apache-2.0
// The payloads of frames that say more than one thing, as values. What cannot be read is refused
// with protocol. Pure.
#pragma once

#include "remote/frames.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

// Down, first: the receiver's place, and the machines behind it in the list that it is to start
// agents on, with the remote shell and the command line for that.
struct SetupMessage {
  std::uint16_t host = 0;
  std::string name;        // as somebody typed it
  bool binds = false;      // a port is wanted where the others meet
  std::string port_range;  // "A-B"; empty: any
  int fanout = 0;
  int retry_seconds = 0;  // for remote shells that fail in a way that may pass
  std::string command;    // one word for the remote shell, quoted for a POSIX shell
  std::vector<std::string> rsh;
  std::vector<std::string> targets;  // hosts host+1, host+2, …
  bool operator==(const SetupMessage&) const = default;
};

// Up: the machine is there.
struct HelloMessage {
  std::string version;
  std::string address;     // at which the remote shell reached it; empty: unknown
  std::uint16_t port = 0;  // held for the rendezvous, if one was wanted
  std::string caller{};    // the address from which it was reached; empty: unknown
  bool operator==(const HelloMessage&) const = default;
};

// Down: what to run there.
struct StartMessage {
  std::string folder;                    // to run in
  std::vector<std::string> args;         // of the launcher, without its own name
  std::vector<std::string> environment;  // "NAME=value", replaces what is there
  std::string token{};                   // of the job, for its standard input; empty: none
  bool one_sink = false;                 // its output and error are one pipe, sent as error
  bool operator==(const StartMessage&) const = default;
};

[[nodiscard]] std::string encode(const SetupMessage& message);
[[nodiscard]] std::string encode(const HelloMessage& message);
[[nodiscard]] std::string encode(const StartMessage& message);
[[nodiscard]] Result<SetupMessage> decode_setup(std::string_view payload);
[[nodiscard]] Result<HelloMessage> decode_hello(std::string_view payload);
[[nodiscard]] Result<StartMessage> decode_start(std::string_view payload);

}  // namespace muster
