// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/node/introductions.hpp"

#include "rendezvous/round/round_core.hpp"

#include <fmt/core.h>

#include <utility>

namespace muster {
namespace {

constexpr Duration kBetweenSentences = std::chrono::minutes(1);

}  // namespace

std::optional<Refuse> refusal_of(const Introduction& theirs, const Introduction& ours) {
  if (theirs.job != ours.job) {
    return other_job(theirs.job);
  }
  if (ours.sealed && !theirs.sealed) {
    return Refuse{Refusal::wrong_token,
                  "this job needs a token; start all its nodes with the same --token-file, or let "
                  "them share ~/.config"};
  }
  if (!ours.sealed && theirs.sealed) {
    return Refuse{Refusal::wrong_token,
                  "this job runs without a token, and this node has one; start all its nodes with "
                  "the same --token-file, or with --token=none"};
  }
  return std::nullopt;
}

Refuse other_token() {
  return Refuse{Refusal::wrong_token,
                "another token: is ~/.config shared? Otherwise start all nodes of this job with "
                "the same --token-file, or with --token=none"};
}

std::string without_token(const std::string& address, const std::string& why) {
  return fmt::format(
      "whoever can connect to {} can take part in this job, which has no token: {}", address, why);
}

std::optional<std::string> RefusalTally::add(TimePoint now,
                                             const std::string& host,
                                             const Refuse& refuse) {
  Reason& reason = reasons_[refuse.why];
  if (reason.told && now - *reason.told < kBetweenSentences) {
    ++reason.untold;
    return std::nullopt;
  }
  reason.told = now;
  const std::size_t others = std::exchange(reason.untold, 0);
  return fmt::format("refused node at {}{}: {}",
                     host,
                     others == 0 ? "" : fmt::format(" and {} others before", others),
                     refuse.text);
}

}  // namespace muster
