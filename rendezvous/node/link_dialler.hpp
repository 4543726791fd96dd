// SPDX-License-Identifier: Apache-2.0
// LinkDialler: opens the connections that the core asks for. It looks names up without blocking the
// loop and hands the addresses to LinkSockets. Used by RendezvousNode. Resource; one thread.
#pragma once

#include "io/name_lookup.hpp"
#include "rendezvous/node/link_sockets.hpp"
#include "rendezvous/round/node_effects.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace asio {
class io_context;
}

namespace muster {

class LinkDialler {
 public:
  // Runs the work inside a turn of the node.
  using Turn = std::function<void(const std::function<void()>&)>;
  // A name has no address: called inside such a turn.
  using NoName = std::function<void(LinkId, const std::string& why)>;

  LinkDialler(asio::io_context& loop, Turn turn, NoName no_name)
      : loop_(loop), turn_(std::move(turn)), no_name_(std::move(no_name)) {}

  // Before anything is opened; it outlives the dialler.
  void use(LinkSockets& sockets) { sockets_ = &sockets; }

  // `host` in place of the one in `wanted`: a name or a numeric address.
  void open(const OpenLink& wanted, const std::string& host);

  // The core has closed it; nothing follows.
  void forget(LinkId link) { lookups_.erase(link); }

  void forget_all() { lookups_.clear(); }

 private:
  void name_found(const OpenLink& wanted, TimePoint asked, Result<std::vector<std::string>> found);

  asio::io_context& loop_;
  Turn turn_;
  NoName no_name_;
  LinkSockets* sockets_ = nullptr;
  std::map<LinkId, std::unique_ptr<NameLookup>> lookups_;
};

}  // namespace muster
