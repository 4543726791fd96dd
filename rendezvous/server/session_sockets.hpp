// SPDX-License-Identifier: Apache-2.0
// SessionSockets: the listening socket, the connections and ServerCore in one epoll set. It decides
// nothing about the protocol and knows no event loop: its owner watches fd() and calls serve when
// that is readable. Single-threaded; resource type.
//
// Why an epoll set of its own: a general loop pays for each operation on each socket (a speculative
// read, a handler, a re-arm), which costs a third of the request rate. See README.md.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"
#include "rendezvous/server/server_core.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/epoll.h>

namespace muster {

class SessionSockets {
 public:
  using Notice = std::function<void(const std::string&)>;

  [[nodiscard]] static Result<std::unique_ptr<SessionSockets>> open(UniqueFd listener);

  // Readable when serve has something to do.
  [[nodiscard]] int fd() const { return epoll_.get(); }

  [[nodiscard]] int listener() const { return listener_.get(); }

  // Serves what is ready, for a bounded time.
  void serve();

  // Told in one sentence why a client was closed, if it was a client at all.
  void set_notice(Notice notice) { notice_ = std::move(notice); }

  // Given each connection that begins as one between nodes does, with the bytes read so far.
  using Adopter = std::function<void(UniqueFd, std::string)>;

  void set_adopter(Adopter adopter) { adopter_ = std::move(adopter); }

  // True while no descriptor is left for a new connection: new clients wait in the backlog until a
  // session ends or the owner calls accept_again.
  [[nodiscard]] bool accept_paused() const { return accept_paused_; }

  void accept_again();

 private:
  struct Connection {
    UniqueFd fd;
    std::uint32_t generation = 0;  // tells events of an earlier connection in this slot
    std::uint32_t armed = 0;       // the events that epoll reports
  };

  SessionSockets(UniqueFd listener, UniqueFd epoll);
  bool spin_on(TimePoint now, Duration idle);
  void handle(const epoll_event& event);
  void accept_some();
  void adopt(UniqueFd fd);
  void pause_accept();
  void read(SessionId id);
  [[nodiscard]] bool is_node(SessionId id, std::string_view bytes) const;
  void give_away(SessionId id, std::string_view bytes);
  void flush(SessionId id);
  void flush_touched();
  void arm(SessionId id);
  void drop(SessionId id);
  void refuse(SessionId id);
  void control(int operation, int fd, std::uint32_t events, std::uint64_t tag);

  UniqueFd listener_;
  UniqueFd epoll_;
  ServerCore core_;
  std::vector<Connection> connections_;
  std::unique_ptr<char[]> buffer_;
  Notice notice_;
  Adopter adopter_;
  TimePoint went_idle_{};
  TimePoint crowded_until_{};
  bool accept_paused_ = false;
  bool may_spin_ = false;
  bool spin_pays_ = false;
};

}  // namespace muster
