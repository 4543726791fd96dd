// SPDX-License-Identifier: Apache-2.0
// CredentialKeys: the keys of connections between nodes that have no token in common, but a service
// such as MUNGE, which shows a secret to one user only on all machines. Each node has a secret of
// its own, made at random. It is the key of all connections that it accepts: who connects is given
// it as a credential. So a node that comes later, or leads later, needs nothing from before.
// LinkSockets uses it. Resource; one thread.
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
  // Runs work, such as answering, within a turn of the sockets.
  using Turn = std::function<void(const std::function<void()>&)>;
  using Key = std::shared_ptr<const JobTrust>;

  CredentialKeys(CredentialService& service, std::string job, Turn turn);

  // Of what we accept.
  [[nodiscard]] const JobTrust& own() const { return *own_; }

  // A credential that tells own(): the last one, or a fresh one if that is older than a minute; the
  // service is not asked again within a second of a failure. So strangers who ask cost next to
  // nothing. `done` is called once, now or later.
  void tell(TimePoint now, std::function<void(const Result<std::string>&)> done);

  // The key in the credential of a node that we have connected to. Those seen last are remembered.
  using Learned = std::function<void(const Result<Key>&)>;
  void learn(const std::string& credential, Learned done);

 private:
  struct Other {
    std::string credential;
    Key key;                       // none: it is being asked for
    std::vector<Learned> waiting;  // for that
  };

  void told(TimePoint asked, const Result<std::string>& credential);
  void learned(const std::string& credential, const Result<std::string>& secret);

  CredentialService& service_;
  std::string job_;
  Turn turn_;
  std::string secret_;
  Key own_;
  Result<std::string> last_;
  std::optional<TimePoint> last_until_;  // none: nobody has asked yet
  std::vector<std::function<void(const Result<std::string>&)>> askers_;
  std::deque<Other> others_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // answers may come after our end
};

}  // namespace muster
