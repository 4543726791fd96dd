// SPDX-License-Identifier: Apache-2.0
// What two nodes think of each other's introductions, and how often strangers are mentioned. Pure.
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

// Why who says this may not go on; it names nothing of ours.
[[nodiscard]] std::optional<Refuse> refusal_of(const Introduction& theirs,
                                               const Introduction& ours);

// Its key is not ours; and why MUNGE did not help either, if that was tried.
[[nodiscard]] Refuse other_token(const std::string& munge_fault = "");

// We can do nothing with its credential.
[[nodiscard]] Refuse other_munge(const std::string& fault);

// Nor it with ours: it went away when it had it.
[[nodiscard]] Refuse left_munge();

// It connects from an address of no host in the platform's list.
[[nodiscard]] Refuse unnamed_host(const std::string& address, const std::string& list);

// What a node says that others can reach, and that has no token.
[[nodiscard]] std::string without_token(const std::string& address, const std::string& why);

// What the coordinator of a job says that trusted these addresses without a secret while it formed.
[[nodiscard]] std::string trusted_at_first(const std::string& address, const FirstUse& first_use);

// Who was refused, in one sentence, at most once a minute for each reason: strangers may come as
// often as they like.
class RefusalTally {
 public:
  [[nodiscard]] std::optional<std::string> add(TimePoint now,
                                               const std::string& host,
                                               const Refuse& refuse);

 private:
  std::map<Refusal, Seldom> reasons_;
};

}  // namespace muster
