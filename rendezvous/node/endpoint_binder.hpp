// SPDX-License-Identifier: Apache-2.0
// EndpointBinder: looks the endpoints' names up without stopping the loop, and binds those that are
// this machine's. Lives on the loop; destroying it cancels what is under way. Resource.
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
  // Given each listener as soon as it listens.
  using Take = std::function<void(UniqueFd)>;

  EndpointBinder(asio::io_context& loop, const std::vector<Endpoint>& endpoints, Take take);
  EndpointBinder(const EndpointBinder&) = delete;
  EndpointBinder& operator=(const EndpointBinder&) = delete;
  ~EndpointBinder();

  // Tries those that are not ours yet; `done` is called once, never from inside.
  void try_all(std::function<void()> done);

  // The same, but `done` is called once it is known whether the first endpoint is ours, and another
  // one can be dialled or all are tried; and soon after a name is known while the first one's is
  // not.
  void try_enough(std::function<void()> done);

  // The same, but never before it is known whether the first endpoint is ours: for the node that
  // hosts it.
  void try_first(std::function<void()> done);

  // Tries again until nothing of this machine is left to others; in the background.
  void keep_trying();

  // Listens on every address at the port of the first endpoint.
  [[nodiscard]] Result<void> host_first_everywhere();

  // The same news. Where we host, but the first endpoint is no address of this machine, with that:
  // as a rule two machines were given the number 0, and each waits for the other.
  [[nodiscard]] ShowRollCall with_place(ShowRollCall show) const;

  [[nodiscard]] const EndpointBinding& first() const;

  // The first endpoint is this machine's and another program listens there, or its name is not
  // known yet.
  [[nodiscard]] bool may_have_first() const;

  // Whether a single name could be looked up; if not, why.
  [[nodiscard]] bool any_known() const;
  [[nodiscard]] std::string trouble() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace muster
