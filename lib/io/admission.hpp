// SPDX-License-Identifier: Apache-2.0
// Admission: decides who may use one of our listeners. Called once per accepted connection, before
// the first byte is answered; the decision may come later, for example after querying another
// process. Interface; called on the caller's loop.
#pragma once

#include "base/error.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace muster {

// An accepted connection, identified by the addresses of both ends, numeric as from
// SocketAddress::host(). A kernel needs both to find the socket at the other end.
struct PeerAddress {
  std::string host;
  std::uint16_t port = 0;
  std::string local_host;
  std::uint16_t local_port = 0;
  bool operator==(const PeerAddress&) const = default;
};

// A value admits the peer; an error closes the connection, with its message as the reason.
using AdmissionAnswer = std::function<void(Result<void>)>;

class Admission {
 public:
  virtual ~Admission() = default;

  // Calls `answer` once, on the same thread, before it returns or later. A late call for a closed
  // connection or a destroyed listener has no effect.
  virtual void admit(const PeerAddress& peer, AdmissionAnswer answer) = 0;
};

// Admits every peer at once; the default for listeners.
class AdmitEverybody final : public Admission {
 public:
  void admit(const PeerAddress& /*peer*/, AdmissionAnswer answer) override { answer({}); }
};

}  // namespace muster
