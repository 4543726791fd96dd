// SPDX-License-Identifier: Apache-2.0
// FirstUse: the keys of a job whose nodes may have no secret in common, as virtual machines with a
// home each. Trust on first use: while the job forms, any node can connect with a key made from the
// job id, and the coordinator gives it the job's own key, made at random. After that a node needs
// the job's key, or the address of a member. Never between processes of one machine, which share a
// home. LinkSockets uses it. Resource; one thread.
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
  // `is_here` tells addresses of this machine.
  using IsHere = std::function<bool(const std::string&)>;
  explicit FirstUse(std::string job, IsHere is_here = is_on_this_machine);
  static bool is_on_this_machine(const std::string& address);

  // Anyone who knows the job id has this key. It protects from listeners, not from who takes part.
  [[nodiscard]] const JobTrust& meeting() const { return meeting_; }

  // The job's own key. Made here until another node's is learned.
  [[nodiscard]] const std::shared_ptr<const JobTrust>& job_key() const { return job_key_; }

  // What Welcome carries to a follower, and what it learns from there.
  [[nodiscard]] const std::string& share();
  using Message = std::shared_ptr<const RoundMessage>;
  [[nodiscard]] Message with_key(const Message& message);
  void learn(const std::string& secret);

  // Another node may have our key.
  [[nodiscard]] bool is_shared() const { return is_shared_; }

  // A round was formed. From now on nodes with other addresses need the job's key. True for the
  // first round, if nodes have used the key of the meeting.
  bool close(const Round& round);

  // Whether a connection with `peer` may use the key of the meeting. Addresses are numeric.
  [[nodiscard]] bool admits(const std::string& peer) const;

  // Only hosts with these addresses may connect to us with that key; `origin` lists them.
  void limit_to(std::set<std::string> addresses, const std::string& origin);

  // The platform names hosts, and their addresses could not be found.
  void note_unknown(const std::string& why) { why_unlimited_ = why; }

  // Addresses of this machine always pass.
  [[nodiscard]] bool is_named(const std::string& peer) const;

  [[nodiscard]] const std::string& named_by() const { return named_by_; }

  [[nodiscard]] const std::string& why_unlimited() const { return why_unlimited_; }

  // Who connected with that key, until close.
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
