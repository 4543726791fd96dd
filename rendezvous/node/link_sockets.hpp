// SPDX-License-Identifier: Apache-2.0
// LinkSockets: the listeners and connections between nodes, in one epoll set. It converts between
// bytes and events of NodeCore. It needs no event loop: the owner watches fd(), calls serve when it
// is readable, and calls settle at the end of each turn and at next_deadline(). The sink receives
// events one at a time, only from serve, adopt and settle. Resource; one thread.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"
#include "io/admission.hpp"
#include "rendezvous/node/introductions.hpp"
#include "rendezvous/node/link.hpp"
#include "rendezvous/node/link_keys.hpp"
#include "rendezvous/node/link_limits.hpp"
#include "rendezvous/round/node_events.hpp"
#include "rendezvous/server/admission_queue.hpp"
#include "rendezvous/server/descriptor_shortage.hpp"
#include "trust/secure_channel.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sys/epoll.h>

namespace muster {

class LinkSockets {
 public:
  using Sink = std::function<void(NodeEvent)>;

  [[nodiscard]] static Result<std::unique_ptr<LinkSockets>> open(const LinkLimits& limits,
                                                                 Sink sink);

  [[nodiscard]] int fd() const { return epoll_.get(); }

  // Accepts connections from this socket from now on. It must already be listening.
  void add_listener(UniqueFd listener);
  // While a listener is lent, another component accepts its connections.
  void lend_listener(int fd, bool lent);
  void close_listeners();

  // Call this first. The keys must outlive the sockets. Without keys, nothing is encrypted.
  void set_job(std::string job,
               const JobTrust* trust,
               CredentialKeys* keys = nullptr,
               FirstUse* first_use = nullptr);
  // Sets the key that our coordinator sent. Keys that failed before are tried again.
  void use_job_key(const std::string& secret);

  // Receives a log line when a stranger is refused, and when descriptors first run out.
  void set_notice(std::function<void(const std::string&)> notice) { notice_ = std::move(notice); }

  // `admission` is queried for each connection after its first bytes arrive. Nothing is sent before
  // the connection is admitted. It must outlive the sockets. If not set, every peer is admitted.
  void set_admission(Admission* admission, const AdmissionLimits& limits = {}) {
    admissions_.set_admission(admission, limits);
  }

  // Takes over a connection that another component has accepted, with the bytes read so far.
  void adopt(TimePoint now, UniqueFd fd, std::string_view bytes);

  // Sets the source address of outgoing connections.
  void set_source(const SocketAddress& source) { source_ = source; }

  // Tries the addresses in turn, for `timeout` in total. LinkOpened or LinkClosed follows.
  void connect(LinkId id, std::vector<SocketAddress> addresses, Duration timeout);
  void send(LinkId id, SharedFrame frame);
  // Allow texts from a follower after its Welcome, and member lists after it was sent ShowRounds.
  void allow_texts(LinkId id);
  void allow_lists(LinkId id);
  // A paused link is not read. A relay uses this to limit its buffers.
  void pause(LinkId id, bool paused);
  // The number of unsent bytes. The callback runs when this number falls to `mark`.
  [[nodiscard]] std::size_t unsent(LinkId id) const;
  void set_drained(std::size_t mark, std::function<void(LinkId)> drained);
  // Closes the link after all of its output is sent. No event follows.
  void close(LinkId id);
  void close_all();

  // Returns true if more events may be ready.
  bool serve(TimePoint now);
  void settle(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  // True if no output is pending on any link.
  [[nodiscard]] bool drained() const { return links_.empty(); }

  [[nodiscard]] bool knows(LinkId id) const { return links_.contains(id); }

  // The address of our end of a connection.
  [[nodiscard]] std::string local_host(LinkId id) const;

 private:
  // A listener's tag has the top bit set, which link IDs never use. The rest is the descriptor.
  static constexpr std::uint64_t kListenerBit = 1ULL << 63U;

  struct Listener {
    UniqueFd fd;
    bool lent = false;
  };

  LinkSockets(const LinkLimits& limits, Sink sink, UniqueFd epoll);

  void handle(const epoll_event& event);
  void accept_from(int listener);
  void watch(const Listener& listener, bool wanted);
  void pause_accept(int why);
  void resume_accept();
  bool make_room();
  bool look_at_oldest_stranger();
  void ask(Link& link, std::string_view bytes);
  void take_answer(LinkId id, const Result<void>& answer);
  void begin_admitted(Link& link);
  void take_first_bytes(Link& link, std::string_view bytes);
  Link& add_link(LinkId id, RoundDecoder::Side side);
  [[nodiscard]] Link& take_in(UniqueFd fd);
  void try_next_address(Link& link);
  void take_outcome(Link& link);
  void read(Link& link);
  void discard(Link& link);
  void take_bytes(Link& link, std::string_view bytes);
  void decode(Link& link, std::string_view bytes);
  void note_input(Link& link);
  void introduce(Link& link);
  void take_introduction(Link& link);
  void take_reply(Link& link);
  void take_credential(LinkId id, const Result<CredentialKeys::Key>& key);
  void give_credential(LinkId id, const Result<std::string>& credential);
  void use_key(Link& link, Proofs proof);
  void reply_sealed(Link& link);
  [[nodiscard]] bool tries_another(Link& link);
  void begin_tls(Link& link);
  void lose_credential(Link& link, const std::string& why);
  void note_departure(const Link& link);
  void greet(Link& link);
  void take_sealed(Link& link, std::string_view bytes);
  bool begin_handshake(Link& link);
  void take_handshake(Link& link);
  void end_handshake(Link& link);
  void take_turns();
  void lose_trust(Link& link);
  void turn_away(Link& link, const Refuse& why, bool may_end_job = true);
  void turn_away_foreign(Link& link);
  void tell_refused(const std::string& from, const Refuse& why);
  void take_message(Link& link, RoundMessage message);
  void flush(Link& link);
  [[nodiscard]] int send_some(Link& link);
  void touch(Link& link);
  void arm(Link& link);
  void set_deadline(Link& link, std::optional<TimePoint> deadline);
  void expire(Link& link);
  void start_lingering(Link& link);
  void refuse_version_of(Link& link);

  [[nodiscard]] Link* find_live(LinkId id);
  void dismiss(Link& link);
  void fail(Link& link, LinkEnd how, std::string text);
  void bury(Link& link);
  void control(int operation, int fd, std::uint32_t events, std::uint64_t tag);

  LinkLimits limits_;
  Sink sink_;
  UniqueFd epoll_;
  std::vector<Listener> listeners_;
  std::unordered_map<LinkId, std::unique_ptr<Link>> links_;
  std::set<LinkId> strangers_;  // does not include links in admissions_
  std::set<LinkId> lingering_;
  std::set<LinkId> handshakes_;  // incoming handshakes
  std::deque<LinkId> turns_;     // links that wait for a handshake slot; some may be closed
  RefusalTally refusals_;
  AdmissionQueue admissions_;
  AcceptPause accept_pause_{"node"};
  std::function<void(const std::string&)> notice_;
  std::size_t drained_mark_ = 0;
  std::function<void(LinkId)> drained_;
  std::set<std::pair<TimePoint, LinkId>> deadlines_;
  std::vector<LinkId> touched_;
  std::vector<LinkId> to_dial_;
  std::vector<LinkId> dead_;
  std::unique_ptr<char[]> buffer_;
  LinkKeys keys_;
  std::optional<SocketAddress> source_;
  TimePoint now_{};
  LinkId next_id_ = 2;
  std::size_t held_ = 0;
  std::size_t sent_ = 0;  // bytes sent in this turn
};

}  // namespace muster
