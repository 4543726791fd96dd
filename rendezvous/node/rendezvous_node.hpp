// SPDX-License-Identifier: Apache-2.0
// RendezvousNode: NodeCore with sockets, names and a clock, on the loop of its owner. It decides
// nothing about rounds: what concerns the network it carries out, the rest it hands to NodeOwner.
// Resource; one thread.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "io/admission.hpp"
#include "rendezvous/node/first_use.hpp"
#include "rendezvous/node/node_owner.hpp"
#include "rendezvous/node/node_sockets.hpp"
#include "rendezvous/node/rendezvous.hpp"
#include "rendezvous/node/round_record.hpp"
#include "rendezvous/round/node_events.hpp"
#include "rendezvous/round/node_settings.hpp"
#include "rendezvous/server/server.hpp"
#include "trust/credential_service.hpp"
#include "trust/secure_channel.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace asio {
class io_context;
}

namespace muster {

struct RendezvousSettings {
  NodeSettings core;
  NodeInfo self;                // id, name, nproc, role, node_rank; the rest is found out here
  std::uint64_t seed = 0;       // for jitter
  std::optional<bool> is_host;  // hosts or not, whatever the endpoint's address is
  PortRange ports;              // of the own listener
  std::shared_ptr<const JobTrust> trust{};   // what only nodes of the job know; none: all may join
  CredentialService* credentials = nullptr;  // MUNGE besides, or instead; it outlives the node
  std::string why_no_token{};
  std::shared_ptr<FirstUse> first_use{};        // none: only nodes with a common secret may join
  std::shared_ptr<const RoundRecord> record{};  // none: the node remembers nothing when it restarts
};

class RendezvousNode final : public Rendezvous {
 public:
  // Begins at once; the owner's functions are called from the loop. `owner` outlives the node.
  [[nodiscard]] static Result<std::unique_ptr<RendezvousNode>> start(asio::io_context& loop,
                                                                     RendezvousSettings settings,
                                                                     NodeSockets sockets,
                                                                     NodeOwner& owner);
  RendezvousNode(const RendezvousNode&) = delete;
  RendezvousNode& operator=(const RendezvousNode&) = delete;
  // Closes every connection at once, as death would.
  ~RendezvousNode() override;

  // Asked about every connection of another node before it is answered; it outlives the node. To be
  // set before the loop runs. Without one whoever can connect is admitted.
  void set_admission(Admission* admission);

  void tell(AgentEvent event) override;
  void check_deadlines() override;

  [[nodiscard]] const std::string& address() const override;
  [[nodiscard]] std::uint16_t port() const;

  // Whether the first endpoint is ours.
  [[nodiscard]] bool has_endpoint() const;

  [[nodiscard]] Result<std::unique_ptr<StoreServer>> open_store_on_endpoint() override;
  void store_closed() override;
  [[nodiscard]] Result<void> forget(const std::string& name) override;
  [[nodiscard]] StoreCarrier* carrier() override;

  // For logs and tests.
  [[nodiscard]] std::string describe() const;

 private:
  struct Impl;
  explicit RendezvousNode(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace muster
