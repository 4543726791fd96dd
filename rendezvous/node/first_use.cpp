// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/node/first_use.hpp"

#include "io/own_address.hpp"
#include "trust/token_file.hpp"

#include <utility>

namespace muster {
namespace {

// This key is public rather than secret. The text cannot be a valid token.
constexpr std::string_view kPublic = "first use";

// Maximum number of addresses in the warning message.
constexpr std::size_t kGuestsMost = 64;

}  // namespace

bool FirstUse::is_on_this_machine(const std::string& address) {
  return is_loopback(address) || is_own_address(address);
}

FirstUse::FirstUse(std::string job, Admits admits, IsHere is_here)
    : job_(std::move(job)),
      admits_(admits),
      is_here_(std::move(is_here)),
      meeting_(kPublic, job_),
      secret_(make_token()),
      job_key_(std::make_shared<const JobTrust>(secret_, job_)) {}

const std::string& FirstUse::share() {
  is_shared_ = true;
  return secret_;
}

void FirstUse::learn(const std::string& secret) {
  is_shared_ = true;
  if (secret != secret_ && secret.size() >= kMinTokenBytes) {
    secret_ = secret;
    job_key_ = std::make_shared<const JobTrust>(secret_, job_);
  }
}

FirstUse::Message FirstUse::with_key(const Message& message) {
  const auto* const welcome = std::get_if<Welcome>(message.get());
  if (welcome == nullptr) {
    return message;
  }
  Welcome with = *welcome;
  with.job_key = share();
  return std::make_shared<const RoundMessage>(std::move(with));
}

bool FirstUse::close(const Round& round) {
  members_.clear();
  for (const NodeInfo& member : round.members) {
    members_.insert(member.address);
  }
  is_shared_ = true;
  return !is_open() && !std::exchange(is_closed_, true) && !guests_.empty();
}

bool FirstUse::admits(const std::string& peer) const {
  return is_here_(peer) ? admits_ != Admits::other_hosts : !is_closed_ || members_.contains(peer);
}

void FirstUse::limit_to(std::set<std::string> addresses, const std::string& origin) {
  named_ = std::move(addresses);
  named_by_ = origin;
}

bool FirstUse::is_named(const std::string& peer) const {
  return named_by_.empty() || named_.contains(peer) || is_here_(peer);
}

void FirstUse::note_guest(const std::string& peer) {
  if (!is_closed_ && !is_here_(peer) && guests_.size() < kGuestsMost) {
    guests_.insert(peer);
  }
}

}  // namespace muster
