// SPDX-License-Identifier: Apache-2.0
// EndpointBinder: resolves the names of the endpoints without blocking the loop, and binds the
// endpoints that belong to this host. Runs on the loop; destroying it cancels pending work.
// Resource.
#pragma once

#include "base/endpoint.hpp"
#include "base/fd.hpp"
#include "rendezvous/node/node_sockets.hpp"
#include "rendezvous/round/node_effects.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace asio {
class io_context;
}

namespace muster {

class EndpointBinder {
 public:
  // Receives each socket as soon as it listens.
  using Take = std::function<void(UniqueFd)>;

  EndpointBinder(asio::io_context& loop, const std::vector<Endpoint>& endpoints, Take take);
  EndpointBinder(const EndpointBinder&) = delete;
  EndpointBinder& operator=(const EndpointBinder&) = delete;
  ~EndpointBinder();

  // Tries to bind all endpoints that are not bound yet. `done` is called once, never synchronously.
  void try_all(std::function<void()> done);

  // Like try_all, but calls `done` early: as soon as the first endpoint has been tried and the name
  // of any endpoint has been resolved. If the lookup for the first endpoint takes longer than the
  // lookup for another endpoint, `done` is called after a short grace period.
  void try_enough(std::function<void()> done);

  // Like try_enough, but without the grace period, so `done` is never called before the first
  // endpoint has been tried. Used by the node that hosts the first endpoint.
  void try_first(std::function<void()> done);

  // Retries in the background until every endpoint on this host is bound.
  void keep_trying();

  // Listens on all addresses, on the port of the first endpoint.
  [[nodiscard]] Result<void> host_first_everywhere();

  // Returns `show`, with a hint if this node is the host but the first endpoint is not an address
  // of this host. In that case, two hosts were probably started with --node-rank=0 and wait for
  // each other.
  [[nodiscard]] ShowRollCall with_place(ShowRollCall show) const;

  [[nodiscard]] const EndpointBinding& first() const;

  // True if the first endpoint is on this host but another program listens there, or if its name
  // has not been resolved yet.
  [[nodiscard]] bool may_have_first() const;

  // True if at least one name has been resolved. Otherwise trouble() returns the reason.
  [[nodiscard]] bool any_known() const;
  [[nodiscard]] std::string trouble() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace muster
