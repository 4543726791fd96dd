// SPDX-License-Identifier: Apache-2.0
// VouchedAdmission: decides which remote clients may use the workers' store of a multi-node job, by
// querying the client's node through the rendezvous. SocketWitness answers the queries of other
// nodes for this node. Resources of SharedRounds; one thread.
#pragma once

#include "io/admission.hpp"
#include "io/socket_owner.hpp"
#include "process/tree/job_sockets.hpp"
#include "rendezvous/round/node_effects.hpp"
#include "rendezvous/round/node_events.hpp"
#include "rendezvous/server/admission_limits.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

namespace muster {

// Limits for clients that wait while their nodes are queried.
[[nodiscard]] AdmissionLimits store_admission_limits(Duration lease);

class VouchedAdmission final : public Admission {
 public:
  using Ask = std::function<void(VouchWanted)>;

  // `ask` sends a query to the other nodes; the caller passes the answer to known().
  explicit VouchedAdmission(Ask ask) : ask_(std::move(ask)) {}

  void admit(const PeerAddress& peer, AdmissionAnswer answer) override;
  void known(const VouchKnown& known);

 private:
  Ask ask_;
  std::uint64_t clients_ = 0;
  std::map<std::uint64_t, AdmissionAnswer> waiting_;
};

class SocketWitness {
 public:
  explicit SocketWitness(JobSockets& sockets) : sockets_(sockets) {}

  // Determines who owns the connection on this host. The connection must belong to our user and be
  // open in a descendant process. If /proc does not show the process, only the user is checked. If
  // our user namespace does not distinguish our user from others, the answer is unknown. An agent
  // that runs as root also vouches for its workers that run as other users. None if the kernel
  // cannot answer now.
  [[nodiscard]] std::optional<VouchAnswer> owner_of(const StoreClient& client);

 private:
  SocketDiag diag_;
  JobSockets& sockets_;
};

}  // namespace muster
