// SPDX-License-Identifier: Apache-2.0
// FirstUse: keys for a job whose nodes may have no common secret, such as VMs with separate home
// directories. It implements trust on first use: while the job forms, any node can connect with a
// key derived from the job ID, and the coordinator sends it the job's own random key. Afterwards a
// node needs the job key, or the address of a member. Used by LinkSockets. Resource; one thread.
#pragma once

#include "rendezvous/wire/round_messages.hpp"
#include "trust/secure_channel.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

namespace muster {

class FirstUse {
 public:
  // Which peers may connect with the meeting key.
  enum class Admits : std::uint8_t {
    other_hosts,  // this node has a token, which other processes on this host can read
    all_hosts,    // this node has no token
    always,       // all hosts, and newcomers even after the job has formed
  };

  // `is_here` returns true for addresses of this host.
  using IsHere = std::function<bool(const std::string&)>;
  explicit FirstUse(std::string job,
                    Admits admits = Admits::other_hosts,
                    IsHere is_here = is_on_this_machine);
  static bool is_on_this_machine(const std::string& address);

  // Anyone who knows the job ID has this key. It does not keep other nodes out; it only prevents
  // passive eavesdropping.
  [[nodiscard]] const JobTrust& meeting() const { return meeting_; }

  // The job's own key. It is generated here, and replaced if we receive another node's key.
  [[nodiscard]] const std::shared_ptr<const JobTrust>& job_key() const { return job_key_; }

  // A coordinator puts the key into Welcome with share() or with_key(). A follower passes the key
  // that it received to learn().
  [[nodiscard]] const std::string& share();
  using Message = std::shared_ptr<const RoundMessage>;
  [[nodiscard]] Message with_key(const Message& message);
  void learn(const std::string& secret);

  // True if another node may have received our key.
  [[nodiscard]] bool is_shared() const { return is_shared_; }

  // The secret of the job key, for this node's record. Empty if the key was not handed out.
  [[nodiscard]] std::string shared_secret() const { return is_shared_ ? secret_ : ""; }

  // Call when a round has formed. From then on, nodes with new addresses need the job key. Returns
  // true for the first round if nodes have connected with the meeting key.
  bool close(const Round& round);

  // True if `peer`, a numeric address, may connect with the meeting key.
  [[nodiscard]] bool admits(const std::string& peer) const;

  // From now on, only hosts with these addresses may connect with the meeting key. `origin` is the
  // name of the host list, for messages.
  void limit_to(std::set<std::string> addresses, const std::string& origin);

  // True if newcomers are admitted even after the job has formed. No list of hosts applies then.
  [[nodiscard]] bool is_open() const { return admits_ == Admits::always; }

  // Call if the platform lists the hosts but their addresses could not be resolved.
  void note_unknown(const std::string& why) { why_unlimited_ = why; }

  // True if the address is in the list, if there is no list, or if the address belongs to this
  // host.
  [[nodiscard]] bool is_named(const std::string& peer) const;

  [[nodiscard]] const std::string& named_by() const { return named_by_; }

  [[nodiscard]] const std::string& why_unlimited() const { return why_unlimited_; }

  // Records a peer on another host that has connected with the meeting key. No effect after
  // close().
  void note_guest(const std::string& peer);

  [[nodiscard]] const std::set<std::string>& guests() const { return guests_; }

 private:
  std::string job_;
  Admits admits_;
  IsHere is_here_;
  JobTrust meeting_;
  std::string secret_;
  std::shared_ptr<const JobTrust> job_key_;
  std::set<std::string> members_;
  std::set<std::string> guests_;
  std::set<std::string> named_;
  std::string named_by_;  // the source of named_; if empty, any host may connect
  std::string why_unlimited_;
  bool is_shared_ = false;
  bool is_closed_ = false;
};

}  // namespace muster
