// SPDX-License-Identifier: Apache-2.0
// VouchedAdmission: who of other machines may talk to the workers' store of a job of many nodes:
// the node there is asked, by way of the rendezvous. SocketWitness answers for this node when
// others ask. Resources of SharedRounds; one thread.
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

// What becomes of the clients that wait, where others are asked about them.
[[nodiscard]] AdmissionLimits store_admission_limits(Duration lease);

class VouchedAdmission final : public Admission {
 public:
  using Ask = std::function<void(VouchWanted)>;

  // `ask` puts a question to the other nodes; its answer is to be given to known().
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

  // Whose is that connection, as this machine sees it? Of our user, and open in a process below us.
  // Where /proc does not tell which process, the user decides; where our user has no number in its
  // user namespace, nobody can tell. An agent of root vouches for its workers of other users, too.
  // Nothing: the kernel could not be asked now.
  [[nodiscard]] std::optional<VouchAnswer> owner_of(const StoreClient& client);

 private:
  SocketDiag diag_;
  JobSockets& sockets_;
};

}  // namespace muster
