// SPDX-License-Identifier: Apache-2.0
// EndpointBinder: resolves the endpoint names without blocking the loop, and binds those that
// belong to this host. Lives on the loop; destroying it cancels pending work. Resource.
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
  // Receives each listener as soon as it listens.
  using Take = std::function<void(UniqueFd)>;

  EndpointBinder(asio::io_context& loop, const std::vector<Endpoint>& endpoints, Take take);
  EndpointBinder(const EndpointBinder&) = delete;
  EndpointBinder& operator=(const EndpointBinder&) = delete;
  ~EndpointBinder();

  // Tries endpoints that are not ours yet. `done` is called once, never synchronously.
  void try_all(std::function<void()> done);

  // Like try_all, but calls `done` once the first endpoint is decided and either another one can be
  // dialled or all have been tried. If the first one is undecided, `done` follows shortly after any
  // name resolves.
  void try_enough(std::function<void()> done);

  // Like try_all, but never calls `done` before the first endpoint is decided. For the node that
  // hosts it.
  void try_first(std::function<void()> done);

  // Retries in the background until no endpoint of this host is left to others.
  void keep_trying();

  // Listens on every address at the port of the first endpoint.
  [[nodiscard]] Result<void> host_first_everywhere();

  // Returns `show`, extended if we host but the first endpoint is not an address of this host.
  // Usually two hosts were given the number 0, and each waits for the other.
  [[nodiscard]] ShowRollCall with_place(ShowRollCall show) const;

  [[nodiscard]] const EndpointBinding& first() const;

  // True if the first endpoint is on this host but another program listens there, or if its name is
  // not resolved yet.
  [[nodiscard]] bool may_have_first() const;

  // True if at least one name was resolved; trouble() has the reason if not.
  [[nodiscard]] bool any_known() const;
  [[nodiscard]] std::string trouble() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace muster
