// SPDX-License-Identifier: Apache-2.0
// LinkKeys: what a node proves itself with on its connections. LinkSockets uses it. Value.
#pragma once

#include "rendezvous/node/credential_keys.hpp"
#include "rendezvous/wire/node_messages.hpp"
#include "trust/secure_channel.hpp"

#include <string>

namespace muster {

struct LinkKeys {
  Introduction introduction;
  const JobTrust* token = nullptr;
  CredentialKeys* munge = nullptr;
  std::string munge_fault;  // why the last credential was useless: so the token is tried
  bool met = false;         // somebody has proved to us that he has the key

  [[nodiscard]] bool any() const { return token != nullptr || munge != nullptr; }

  // The key in our own credential: of who connected to us by MUNGE.
  [[nodiscard]] bool is_own_munge(const JobTrust* key) const {
    return munge != nullptr && key == &munge->own();
  }
};

}  // namespace muster
