// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/node/credential_keys.hpp"

#include "trust/token_file.hpp"

#include <algorithm>
#include <utility>

namespace muster {
namespace {

// How long a credential is reused. By default, a credential is valid for five minutes, so the peer
// has enough time to use it.
constexpr Duration kFresh = std::chrono::minutes(1);
constexpr Duration kAfterFailure = std::chrono::seconds(1);

constexpr std::size_t kOthersMost = 16;

}  // namespace

CredentialKeys::CredentialKeys(CredentialService& service, std::string job, Turn turn)
    : service_(service),
      job_(std::move(job)),
      turn_(std::move(turn)),
      secret_(make_token()),
      own_(std::make_shared<const JobTrust>(secret_, job_)) {}

void CredentialKeys::tell(TimePoint now, std::function<void(const Result<std::string>&)> done) {
  if (last_until_ && now < *last_until_) {
    done(last_);
    return;
  }
  askers_.push_back(std::move(done));
  if (askers_.size() > 1) {
    return;
  }
  service_.seal(secret_, [this, now, weak = std::weak_ptr(alive_)](Result<std::string> sealed) {
    if (!weak.expired()) {
      turn_([&] { told(now, sealed); });
    }
  });
}

void CredentialKeys::told(TimePoint asked, const Result<std::string>& credential) {
  last_ = credential;
  last_until_ = asked + (credential ? kFresh : kAfterFailure);
  for (const auto& done : std::exchange(askers_, {})) {
    done(credential);
  }
}

void CredentialKeys::learn(const std::string& credential, Learned done) {
  const auto known = std::ranges::find(others_, credential, &Other::credential);
  if (known != others_.end() && known->key) {
    done(known->key);
    return;
  }
  if (known != others_.end()) {
    known->waiting.push_back(std::move(done));
    return;
  }
  others_.push_back({.credential = credential, .key = nullptr, .waiting = {}});
  others_.back().waiting.push_back(std::move(done));
  service_.open(credential,
                [this, credential, weak = std::weak_ptr(alive_)](Result<std::string> secret) {
                  if (!weak.expired()) {
                    turn_([&] { learned(credential, secret); });
                  }
                });
}

void CredentialKeys::learned(const std::string& credential, const Result<std::string>& secret) {
  const auto other = std::ranges::find(others_, credential, &Other::credential);
  const auto waiting = std::exchange(other->waiting, {});
  Result<Key> key;
  if (secret && secret->size() < kMinTokenBytes) {
    key = failure(Errc::protocol, "the credential contains no key");
    others_.erase(other);
  } else if (secret) {
    key = std::make_shared<const JobTrust>(*secret, job_);
    other->key = *key;
  } else {
    key = std::unexpected(secret.error());
    others_.erase(other);
  }
  const auto is_known = [](const Other& one) { return one.key != nullptr; };
  while (others_.size() > kOthersMost && is_known(others_.front())) {
    others_.pop_front();
  }
  for (const auto& done : waiting) {
    done(key);
  }
}

}  // namespace muster
