// SPDX-License-Identifier: Apache-2.0
// CredentialKeys: connection keys for nodes that share no token but can use a service such as
// MUNGE. A MUNGE credential can be decoded on any host, but only by one user. Each node has its own
// random secret, which is the key of all connections that it accepts. A connecting node receives
// the secret in a credential. Therefore a node needs no earlier state to join late or to become the
// leader. Used by LinkSockets. Resource; one thread.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"
#include "trust/credential_service.hpp"
#include "trust/secure_channel.hpp"

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace muster {

class CredentialKeys {
 public:
  // Runs a callback, such as one that sends replies, in one iteration of the event loop.
  using Turn = std::function<void(const std::function<void()>&)>;
  using Key = std::shared_ptr<const JobTrust>;

  CredentialKeys(CredentialService& service, std::string job, Turn turn);

  // The key for accepted connections.
  [[nodiscard]] const JobTrust& own() const { return *own_; }

  // Provides a credential that contains the secret of own(). A credential is reused for a minute.
  // After a failure, the service is not called again for one second, so that requests from
  // strangers stay cheap. `done` is called once, immediately or later.
  void tell(TimePoint now, std::function<void(const Result<std::string>&)> done);

  // Extracts the key from the credential of a node to which we connected. Recent keys are cached.
  using Learned = std::function<void(const Result<Key>&)>;
  void learn(const std::string& credential, Learned done);

 private:
  struct Other {
    std::string credential;
    Key key;                       // null while the lookup is pending
    std::vector<Learned> waiting;  // callbacks that wait for the lookup
  };

  void told(TimePoint asked, const Result<std::string>& credential);
  void learned(const std::string& credential, const Result<std::string>& secret);

  CredentialService& service_;
  std::string job_;
  Turn turn_;
  std::string secret_;
  Key own_;
  Result<std::string> last_;
  std::optional<TimePoint> last_until_;  // nullopt before the first request
  std::vector<std::function<void(const Result<std::string>&)>> askers_;
  std::deque<Other> others_;
  // Results may arrive after this object is destroyed.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace muster
