// SPDX-License-Identifier: Apache-2.0
// LinkSockets: listeners and connections between nodes in one epoll set; bytes to events of
// NodeCore and back. It knows no event loop: its owner watches fd(), calls serve when that is
// readable and settle at the end of each turn, and again at next_deadline(). Events go to the sink
// one by one, from serve and settle only. Resource; one thread.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"
#include "rendezvous/node/link.hpp"
#include "rendezvous/round/node_events.hpp"

#include <cstddef>
#include <cstdint>
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

struct LinkLimits {
  std::size_t strangers = 4096;              // accepted, no Hello yet; then the oldest goes
  Duration hello = std::chrono::seconds(5);  // for preamble and Hello
  Duration linger = std::chrono::seconds(2);
  Duration user_timeout = std::chrono::seconds(9);
  std::size_t unsent_bytes = 64UL * 1024 * 1024;  // of one link: it does not read
  std::size_t held_bytes = 256UL * 1024 * 1024;   // half frames of all links together
};

class LinkSockets {
 public:
  using Sink = std::function<void(NodeEvent)>;

  [[nodiscard]] static Result<std::unique_ptr<LinkSockets>> open(const LinkLimits& limits,
                                                                 Sink sink);

  [[nodiscard]] int fd() const { return epoll_.get(); }

  // Accepts from it from now on. The socket listens already.
  void add_listener(UniqueFd listener);
  // Somebody else accepts from this one, or we again.
  void lend_listener(int fd, bool lent);
  void close_listeners();

  // A connection that somebody else has accepted, with the bytes that he has read.
  void adopt(UniqueFd fd, std::string_view bytes);

  // Connections of ours come from this address.
  void set_source(const SocketAddress& source) { source_ = source; }

  // LinkOpened or LinkClosed follows. The addresses are tried in turn, for `patience` in all.
  void connect(LinkId id, std::vector<SocketAddress> addresses, Duration patience);
  void send(LinkId id, SharedFrame frame);
  // The sender on the other side may send long lists.
  void trust(LinkId id);
  // After what was sent is out. No event follows.
  void close(LinkId id);
  void close_all();

  // True if more may be ready.
  bool serve(TimePoint now);
  void settle(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  // Nothing is on its way out any more.
  [[nodiscard]] bool drained() const { return links_.empty(); }

  [[nodiscard]] bool knows(LinkId id) const { return links_.contains(id); }

  // Of this end of a connection.
  [[nodiscard]] std::string local_host(LinkId id) const;

 private:
  struct Listener {
    UniqueFd fd;
    bool lent = false;
  };

  LinkSockets(const LinkLimits& limits, Sink sink, UniqueFd epoll);

  void handle(const epoll_event& event);
  void accept_from(int listener);
  void watch(const Listener& listener, bool wanted);
  void pause_accept();
  void resume_accept();
  Link& add_link(LinkId id, RoundDecoder::Side side);
  [[nodiscard]] Link& take_in(UniqueFd fd);
  void try_next_address(Link& link);
  void take_outcome(Link& link);
  void read(Link& link);
  void discard(Link& link);
  void decode(Link& link, std::string_view bytes);
  void take_message(Link& link, RoundMessage message);
  void flush(Link& link);
  void touch(Link& link);
  void arm(Link& link);
  void set_deadline(Link& link, std::optional<TimePoint> deadline);
  void expire(Link& link);
  void start_lingering(Link& link);
  void refuse_version_of(Link& link);
  void fail(Link& link, LinkEnd how, std::string words);
  void bury(Link& link);
  void drop_oldest_stranger();
  void control(int operation, int fd, std::uint32_t events, std::uint64_t tag);

  LinkLimits limits_;
  Sink sink_;
  UniqueFd epoll_;
  std::vector<Listener> listeners_;
  std::unordered_map<LinkId, std::unique_ptr<Link>> links_;
  std::set<LinkId> strangers_;
  std::set<std::pair<TimePoint, LinkId>> deadlines_;
  std::vector<LinkId> touched_;
  std::vector<LinkId> to_dial_;
  std::vector<LinkId> dead_;
  std::unique_ptr<char[]> buffer_;
  SharedFrame preamble_ = std::make_shared<const std::string>(round_preamble());
  std::optional<SocketAddress> source_;
  std::optional<TimePoint> accept_again_;  // no descriptor was left
  TimePoint now_{};
  LinkId next_id_ = 2;
  std::size_t held_ = 0;
  std::size_t sent_ = 0;  // in this turn
};

}  // namespace muster
