// SPDX-License-Identifier: Apache-2.0
#include "agent/store/store_admission.hpp"

#include "io/socket_address.hpp"
#include "rendezvous/round/questions/client_vouching.hpp"

#include <utility>

#include <unistd.h>

namespace muster {
namespace {

// All workers of a large job may connect at the same moment. At most a quarter of the descriptors
// is used for waiting clients.
constexpr std::size_t kWaitingClients = 16384;

// Added to the vouching timeout, so that the queried node's reply, which contains the reason for a
// refusal, can still arrive.
constexpr Duration kAnswerAfterAll = std::chrono::seconds(1);

}  // namespace

AdmissionLimits store_admission_limits(Duration lease) {
  AdmissionLimits limits;
  limits.sessions = kWaitingClients;
  limits.answer = vouch_within(lease) + kAnswerAfterAll;
  return limits;
}

void VouchedAdmission::admit(const PeerAddress& peer, AdmissionAnswer answer) {
  const std::uint64_t client = ++clients_;
  waiting_.emplace(client, std::move(answer));
  ask_({client, {peer.host, peer.port, peer.local_host, peer.local_port}});
}

void VouchedAdmission::known(const VouchKnown& known) {
  auto found = waiting_.extract(known.client);
  if (!found.empty()) {
    found.mapped()(known.refused ? std::unexpected(*known.refused) : Result<void>());
  }
}

// If descriptors or memory are exhausted, vouches for no client, because an attacker may have
// caused that condition.
std::optional<VouchAnswer> SocketWitness::owner_of(const StoreClient& client) {
  const auto own = SocketAddress::parse(client.host, client.port);
  const auto store = SocketAddress::parse(client.store_host, client.store_port);
  if (!own || !store) {
    return VouchAnswer::no_socket;
  }
  const auto owner = diag_.owner_of(*own, *store);
  if (!owner) {
    return owner.error().code == Errc::not_possible ? std::optional(VouchAnswer::cannot_tell)
                                                    : std::nullopt;
  }
  if (!*owner || (*owner)->inode == 0) {
    return VouchAnswer::no_socket;
  }
  const auto user = (*owner)->uid;
  const bool is_ours = user == ::geteuid();
  const bool is_unknown = !user && !has_number(::geteuid());
  if (user && !is_ours && ::geteuid() != 0) {
    return VouchAnswer::other_user;
  }
  switch (sockets_.find((*owner)->inode)) {
    case JobSockets::Found::yes:
      return VouchAnswer::ours;
    case JobSockets::Found::no:
      return is_ours || is_unknown ? VouchAnswer::other_process : VouchAnswer::other_user;
    case JobSockets::Found::cannot_tell:
      break;
  }
  return is_ours      ? VouchAnswer::ours
         : is_unknown ? VouchAnswer::cannot_tell
                      : VouchAnswer::other_user;
}

}  // namespace muster
