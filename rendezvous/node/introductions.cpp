// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/node/introductions.hpp"

#include "rendezvous/round/leader/round_core.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

namespace muster {
namespace {

constexpr const char* kSameMunge =
    "do all nodes have the same munge.key and user, and synchronized clocks? If not, start all "
    "nodes of this job with the same --token-file";

}  // namespace

std::optional<Refuse> refusal_of(const Introduction& theirs, const Introduction& ours) {
  if (theirs.job != ours.job) {
    return other_job(theirs.job);
  }
  if (ours.proofs == theirs.proofs || (ours.proofs & theirs.proofs) != Proofs::none) {
    return std::nullopt;
  }
  if ((theirs.proofs == Proofs::none && has(ours.proofs, Proofs::first_use)) ||
      (ours.proofs == Proofs::none && has(theirs.proofs, Proofs::first_use))) {
    return Refuse{Refusal::wrong_token,
                  "only one of the two nodes was started with --token=none; start all nodes of the "
                  "job with --token=none, or with the same --token-file"};
  }
  if (has(ours.proofs, Proofs::job_key) && !has(ours.proofs, Proofs::first_use)) {
    return Refuse{Refusal::wrong_token,
                  "this job has already formed without a shared secret; start all nodes with the "
                  "same --token-file so that others can join later"};
  }
  if ((ours.proofs & Proofs::both) == Proofs::none) {
    return Refuse{
        Refusal::wrong_token,
        "this job runs without a token, but this node has one; start all nodes of the job with "
        "the same --token-file, or with --token=none"};
  }
  if (ours.proofs == Proofs::munge) {
    return Refuse{
        Refusal::wrong_token,
        "this job needs MUNGE, which that node does not use; start all nodes of the job with "
        "--token=munge, or all with the same --token-file"};
  }
  return Refuse{
      Refusal::wrong_token,
      "this job needs a token; start all nodes of the job with the same --token-file, or share "
      "~/.config"};
}

Refuse other_token(const std::string& munge_fault) {
  return Refuse{Refusal::wrong_token,
                (munge_fault.empty() ? "" : munge_fault + "; ") +
                    "the tokens differ: is ~/.config shared? If not, start all nodes of this job "
                    "with the same --token-file, or with --token=none"};
}

Refuse other_munge(const std::string& fault) {
  return Refuse{Refusal::wrong_token, fault + "; " + kSameMunge};
}

Refuse left_munge() {
  return Refuse{Refusal::wrong_token,
                std::string("it could not use our MUNGE credential; ") + kSameMunge};
}

std::string without_token(const std::string& address, const std::string& why) {
  return fmt::format(
      "anyone who can reach {} can join this job, because it has no token: {}", address, why);
}

Refuse unnamed_host(const std::string& address, const std::string& list) {
  return Refuse{Refusal::wrong_token,
                fmt::format("the nodes of this job have no shared secret, and {} is not an "
                            "address of a host in {}; start all nodes with the same --token-file",
                            address,
                            list)};
}

std::string trusted_at_first(const std::string& address, const FirstUse& first_use) {
  const std::string& why = first_use.why_unlimited();
  const std::string who =
      !first_use.named_by().empty()
          ? fmt::format(
                "any program on the hosts in {} that reached {}", first_use.named_by(), address)
          : fmt::format("any host that reached {}{}", address, why.empty() ? "" : " (" + why + ")");
  return fmt::format(
      "the nodes of this job have no shared secret. Until the job formed, {} could join. These "
      "joined: {}. From now on, only these nodes can join. To keep others out from the start, copy "
      "one token file to all nodes and set MUSTER_TOKEN_FILE or --token-file",
      who,
      fmt::join(first_use.guests(), ", "));
}

std::optional<std::string> RefusalTally::add(TimePoint now,
                                             const std::string& host,
                                             const Refuse& refuse) {
  const auto others = reasons_[refuse.why].add(now);
  if (!others) {
    return std::nullopt;
  }
  return fmt::format("refused node at {}{}: {}",
                     host,
                     *others == 0 ? "" : fmt::format(" and {} others before", *others),
                     refuse.text);
}

}  // namespace muster
