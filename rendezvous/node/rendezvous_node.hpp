// SPDX-License-Identifier: Apache-2.0
// RendezvousNode: connects NodeCore to sockets, name resolution and a clock, on the owner's loop.
// It makes no decisions about rounds. It executes network effects itself and passes all others to
// NodeOwner. Resource; one thread.
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
  NodeInfo self;                // id, name, nproc, role, node_rank; other fields are set here
  std::uint64_t seed = 0;       // seed for retry jitter
  std::optional<bool> is_host;  // overrides the check of the endpoint's address
  PortRange ports;              // port range for this node's listener
  std::shared_ptr<const JobTrust> trust{};   // the job's shared secret; if null, any node may join
  CredentialService* credentials = nullptr;  // MUNGE, with or without `trust`; outlives the node
  std::string why_no_token{};
  std::shared_ptr<FirstUse> first_use{};        // if null, only nodes with a common secret may join
  std::shared_ptr<const RoundRecord> record{};  // if null, nothing is remembered after a restart
};

class RendezvousNode final : public Rendezvous {
 public:
  // Starts immediately and calls the owner's functions from the loop. `owner` must outlive the
  // node.
  [[nodiscard]] static Result<std::unique_ptr<RendezvousNode>> start(asio::io_context& loop,
                                                                     RendezvousSettings settings,
                                                                     NodeSockets sockets,
                                                                     NodeOwner& owner);
  RendezvousNode(const RendezvousNode&) = delete;
  RendezvousNode& operator=(const RendezvousNode&) = delete;
  // Closes all connections immediately, like a crash.
  ~RendezvousNode() override;

  // `admission` is queried for every incoming connection before a reply is sent. It must outlive
  // the node and be set before the loop runs. If it is not set, every peer that can connect is
  // admitted.
  void set_admission(Admission* admission);

  void tell(AgentEvent event) override;
  void check_deadlines() override;

  [[nodiscard]] const std::string& address() const override;
  [[nodiscard]] std::uint16_t port() const;

  // True if the first endpoint belongs to this node.
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
