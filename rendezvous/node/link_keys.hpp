// SPDX-License-Identifier: Apache-2.0
// LinkKeys: the keys that a node can use for its connections. Used by LinkSockets. Value.
#pragma once

#include "rendezvous/node/credential_keys.hpp"
#include "rendezvous/node/first_use.hpp"
#include "rendezvous/wire/node_messages.hpp"
#include "trust/secure_channel.hpp"

#include <map>
#include <string>

namespace muster {

struct LinkKeys {
  Introduction introduction;
  const JobTrust* token = nullptr;
  CredentialKeys* munge = nullptr;
  FirstUse* first_use = nullptr;
  std::string munge_fault;  // why the last credential was unusable; the token is tried next
  bool met = false;         // a peer has proved to us that it has the key
  std::map<std::string, Proofs> failed{};  // for first_use: the proofs that failed, per peer

  [[nodiscard]] bool any() const {
    return token != nullptr || munge != nullptr || first_use != nullptr;
  }

  // The proofs that can be used on a connection with `peer`.
  [[nodiscard]] Proofs with(const std::string& peer) const {
    Proofs all = introduction.proofs;
    if (first_use != nullptr && first_use->admits(peer)) {
      all = all | Proofs::first_use;
    }
    if (first_use != nullptr && first_use->is_shared()) {
      all = all | Proofs::job_key;
    }
    return all;
  }

  // The name of the platform's host list, if a connecting peer is not in the list and has no
  // secret.
  [[nodiscard]] std::string refused_by_list(const std::string& peer, Proofs theirs) const {
    const bool is_stranger = first_use != nullptr && !first_use->is_named(peer) &&
                             (has(theirs, Proofs::first_use) || theirs == Proofs::none) &&
                             (accepted_with(peer) & theirs) == Proofs::none;
    return is_stranger ? first_use->named_by() : "";
  }

  // The proofs that a connecting peer may use.
  [[nodiscard]] Proofs accepted_with(const std::string& peer) const {
    const Proofs all = with(peer);
    const bool is_stranger = first_use != nullptr && !first_use->is_named(peer);
    return is_stranger ? without(all, Proofs::first_use) : all;
  }

  // True if `key` is the key in our own MUNGE credential.
  [[nodiscard]] bool is_own_munge(const JobTrust* key) const {
    return munge != nullptr && key == &munge->own();
  }
};

}  // namespace muster
