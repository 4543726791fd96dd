// SPDX-License-Identifier: Apache-2.0
// Decides whether to accept a peer's introduction, and limits the rate of log lines about refusals.
// Pure.
#pragma once

#include "base/time.hpp"
#include "rendezvous/node/first_use.hpp"
#include "rendezvous/server/refusal_notes.hpp"
#include "rendezvous/wire/coordinator_messages.hpp"
#include "rendezvous/wire/node_messages.hpp"

#include <map>
#include <optional>
#include <string>

namespace muster {

// The reason for refusing a peer with this introduction; nullopt if the peer is accepted. The text
// reveals nothing about our own settings.
[[nodiscard]] std::optional<Refuse> refusal_of(const Introduction& theirs,
                                               const Introduction& ours);

// The refusal if the peer's key differs from ours. `munge_fault` is the reason why MUNGE failed, if
// it was tried first.
[[nodiscard]] Refuse other_token(const std::string& munge_fault = "");

// The refusal if this node cannot use the peer's credential.
[[nodiscard]] Refuse other_munge(const std::string& fault);

// The refusal if the peer disconnected because it could not use our credential.
[[nodiscard]] Refuse left_munge();

// The refusal if the peer's address does not belong to any host in the platform's list.
[[nodiscard]] Refuse unnamed_host(const std::string& address, const std::string& list);

// A warning about a node that can be reached from other hosts and has no token.
[[nodiscard]] std::string without_token(const std::string& address, const std::string& why);

// The coordinator's warning that it admitted nodes without a shared secret while the job formed.
[[nodiscard]] std::string trusted_at_first(const std::string& address, const FirstUse& first_use);

// Log lines about refused peers: at most one per minute and reason, because strangers may connect
// at any rate.
class RefusalTally {
 public:
  [[nodiscard]] std::optional<std::string> add(TimePoint now,
                                               const std::string& host,
                                               const Refuse& refuse);

 private:
  std::map<Refusal, Seldom> reasons_;
};

}  // namespace muster
