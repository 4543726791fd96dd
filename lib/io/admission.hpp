// SPDX-License-Identifier: Apache-2.0
// Admission: decides which peers may use one of our listeners. admit() is called once per accepted
// connection, before the listener sends anything. It may decide later, for example after querying
// another process. Interface; called on the caller's event loop.
#pragma once

#include "base/error.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace muster {

// An accepted connection, identified by the numeric addresses of both ends, as returned by
// SocketAddress::host(). The kernel needs both to find the socket at the other end.
struct PeerAddress {
  std::string host;
  std::uint16_t port = 0;
  std::string local_host;
  std::uint16_t local_port = 0;
  bool operator==(const PeerAddress&) const = default;
};

// Success admits the peer. An error closes the connection; its message states the reason.
using AdmissionAnswer = std::function<void(Result<void>)>;

class Admission {
 public:
  virtual ~Admission() = default;

  // Calls `answer` exactly once on the same thread, either before returning or later. A late call
  // has no effect if the connection was closed or the listener was destroyed.
  virtual void admit(const PeerAddress& peer, AdmissionAnswer answer) = 0;
};

// Admits every peer immediately. The default for listeners.
class AdmitEverybody final : public Admission {
 public:
  void admit(const PeerAddress& /*peer*/, AdmissionAnswer answer) override { answer({}); }
};

}  // namespace muster
