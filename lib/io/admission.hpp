// SPDX-License-Identifier: Apache-2.0
// Admission: who may talk to one of our listeners. Asked once for each accepted connection, before
// the first byte is answered; the answer may come later, for instance after another process was
// asked. Interface; called on the loop of its caller.
#pragma once

#include "base/error.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace muster {

// An accepted connection by the addresses of both ends, numeric as SocketAddress::host() has them:
// what a kernel needs to find the socket at the other end.
struct PeerAddress {
  std::string host;
  std::uint16_t port = 0;
  std::string local_host;
  std::uint16_t local_port = 0;
  bool operator==(const PeerAddress&) const = default;
};

// A value lets the peer in; an error closes the connection, with its message as the reason.
using AdmissionAnswer = std::function<void(Result<void>)>;

class Admission {
 public:
  virtual ~Admission() = default;

  // Calls `answer` once, on the same thread: before it returns, or later. A call for a connection
  // that has ended meanwhile, or whose listener is gone, has no effect.
  virtual void admit(const PeerAddress& peer, AdmissionAnswer answer) = 0;
};

// Lets everybody in at once: what listeners do that were given nothing else.
class AdmitEverybody final : public Admission {
 public:
  void admit(const PeerAddress& /*peer*/, AdmissionAnswer answer) override { answer({}); }
};

}  // namespace muster
