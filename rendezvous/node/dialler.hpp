// SPDX-License-Identifier: Apache-2.0
// Dialler: opens the connections that a node requests, by address or by name. It resolves names on
// the loop. Owned by RendezvousNode; destroying it cancels its lookups. Resource; one thread.
#pragma once

#include "base/endpoint.hpp"
#include "base/time.hpp"
#include "io/name_lookup.hpp"
#include "rendezvous/node/link_sockets.hpp"
#include "rendezvous/round/node_events.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace asio {
class io_context;
}

namespace muster {

class Dialler {
 public:
  // `turn` runs a callback in one iteration of the event loop; at the end of the iteration, the
  // sockets send their output. `failed` receives lookup failures.
  using Turn = std::function<void(const std::function<void(TimePoint)>&)>;
  using Failed = std::function<void(LinkClosed)>;

  // `typed` contains the endpoints as typed by the user. It must outlive this object.
  Dialler(asio::io_context& loop, const std::vector<Endpoint>& typed, Turn turn, Failed failed);

  void use(LinkSockets& sockets) { sockets_ = &sockets; }

  void set_own_address(const std::string& address) { own_address_ = address; }

  // A peer's link-local address contains the name of the peer's interface. Replaces this name with
  // the name of our interface. Endpoints typed by the user are returned unchanged.
  [[nodiscard]] std::string as_seen_here(const std::string& host) const;

  void dial(TimePoint now, const OpenLink& wanted);

  void cancel(LinkId link) { lookups_.erase(link); }

  void cancel_all() { lookups_.clear(); }

 private:
  void found(TimePoint now,
             const OpenLink& wanted,
             TimePoint asked,
             const Result<std::vector<std::string>>& addresses);

  asio::io_context& loop_;
  const std::vector<Endpoint>& typed_;
  Turn turn_;
  Failed failed_;
  LinkSockets* sockets_ = nullptr;
  std::string own_address_;
  std::map<LinkId, std::unique_ptr<NameLookup>> lookups_;
};

}  // namespace muster
