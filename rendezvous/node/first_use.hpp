// SPDX-License-Identifier: Apache-2.0
// FirstUse: keys for a job whose nodes may have no common secret, such as VMs with separate home
// directories. Trust on first use: while the job forms, any node can connect with a key derived
// from the job id, and the coordinator sends it the job's own random key. Afterwards a node needs
// the job key, or a member's address. Never used between processes on one host, which share a home
// directory. LinkSockets uses it. Resource; one thread.
#pragma once

#include "rendezvous/wire/round_messages.hpp"
#include "trust/secure_channel.hpp"

#include <functional>
#include <memory>
#include <set>
#include <string>

namespace muster {

class FirstUse {
 public:
  // `is_here` returns true for addresses of this host.
  using IsHere = std::function<bool(const std::string&)>;
  explicit FirstUse(std::string job, IsHere is_here = is_on_this_machine);
  static bool is_on_this_machine(const std::string& address);

  // Anyone who knows the job id has this key. It prevents eavesdropping, not participation.
  [[nodiscard]] const JobTrust& meeting() const { return meeting_; }

  // The job's own key. Generated here, until another node's key is learned.
  [[nodiscard]] const std::shared_ptr<const JobTrust>& job_key() const { return job_key_; }

  // share() and with_key() provide the key for Welcome; a follower calls learn() with it.
  [[nodiscard]] const std::string& share();
  using Message = std::shared_ptr<const RoundMessage>;
  [[nodiscard]] Message with_key(const Message& message);
  void learn(const std::string& secret);

  // True if another node may have our key.
  [[nodiscard]] bool is_shared() const { return is_shared_; }

  // A round was formed. From now on nodes with other addresses need the job key. Returns true for
  // the first round if nodes have used the meeting key.
  bool close(const Round& round);

  // True if a connection with `peer` may use the meeting key. Addresses are numeric.
  [[nodiscard]] bool admits(const std::string& peer) const;

  // Only hosts with these addresses may connect to us with the meeting key. `origin` names the
  // list.
  void limit_to(std::set<std::string> addresses, const std::string& origin);

  // The platform names hosts, but their addresses could not be resolved.
  void note_unknown(const std::string& why) { why_unlimited_ = why; }

  // Addresses of this host are always accepted.
  [[nodiscard]] bool is_named(const std::string& peer) const;

  [[nodiscard]] const std::string& named_by() const { return named_by_; }

  [[nodiscard]] const std::string& why_unlimited() const { return why_unlimited_; }

  // Records a peer that connected with the meeting key, until close().
  void note_guest(const std::string& peer);

  [[nodiscard]] const std::set<std::string>& guests() const { return guests_; }

 private:
  std::string job_;
  IsHere is_here_;
  JobTrust meeting_;
  std::string secret_;
  std::shared_ptr<const JobTrust> job_key_;
  std::set<std::string> members_;
  std::set<std::string> guests_;
  std::set<std::string> named_;
  std::string named_by_;  // empty: any host may connect
  std::string why_unlimited_;
  bool is_shared_ = false;
  bool is_closed_ = false;
};

}  // namespace muster
