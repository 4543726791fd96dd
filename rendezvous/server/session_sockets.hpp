// SPDX-License-Identifier: Apache-2.0
// SessionSockets: the listening socket, the connections and ServerCore in one epoll set. It makes
// no protocol decisions and is independent of any event loop: its owner watches fd() and calls
// serve when that is readable. Single-threaded resource.
//
// Why a dedicated epoll set: a general-purpose loop adds work to each operation on a socket (a
// speculative read, a handler, a re-arm), which would reduce the request rate by a third. See
// README.md.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"
#include "io/admission.hpp"
#include "rendezvous/server/admission_limits.hpp"
#include "rendezvous/server/admission_queue.hpp"
#include "rendezvous/server/descriptor_shortage.hpp"
#include "rendezvous/server/server_core.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
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

  // Readable if serve has work to do.
  [[nodiscard]] int fd() const { return epoll_.get(); }

  [[nodiscard]] int listener() const { return listener_.get(); }

  // Serves ready sockets for a limited time.
  void serve();

  // Receives a log line when a client is closed or refused, and when descriptors are exhausted.
  void set_notice(Notice notice) { notice_ = std::move(notice); }

  // Receives each connection whose first bytes are those of a node, with all bytes read so far.
  using Adopter = std::function<void(UniqueFd, std::string)>;

  void set_adopter(Adopter adopter) { adopter_ = std::move(adopter); }

  // `admission` is queried for each client after its first bytes have arrived. No reply is sent
  // before the client is admitted. It is not queried for nodes, because the adopter checks them. It
  // must outlive the sockets. If it is not set, every client is admitted.
  void set_admission(Admission* admission, const AdmissionLimits& limits = {}) {
    admissions_.set_admission(admission, limits);
  }

  // The time at which expire has work to do. Without a free descriptor, new clients wait in the
  // backlog until a session ends or until this time.
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;
  void expire(TimePoint now);

  // The number of connections that have not sent a greeting or a request yet.
  [[nodiscard]] std::size_t silent() const { return silent_.size(); }

  // The first violated invariant, or empty. Debug builds check this after serve(), less
  // often if there are many connections and keys.
  [[nodiscard]] std::string check_invariants() const;

 private:
  using Ticket = AdmissionQueue::Ticket;

  // The state of a connection.
  enum class Standing : std::uint8_t {
    silent,    // nothing has been read yet
    asking,    // has sent its first bytes; admission is pending
    admitted,  // its first bytes do not show yet whether it is a client
    client,
  };

  struct Connection {
    UniqueFd fd;
    std::uint32_t generation = 0;  // distinguishes events of an earlier connection in this slot
    std::uint32_t armed = 0;       // the registered epoll events
    Standing standing = Standing::silent;
    Ticket ticket = 0;  // the connection's key in silent_ or admissions_
  };

  SessionSockets(UniqueFd listener, UniqueFd epoll, UniqueFd work);
  [[nodiscard]] std::string check_connection(SessionId id) const;
  void note_turn();
  void return_memory(bool idle);
  bool spin_on(TimePoint now, Duration idle);
  void handle(const epoll_event& event);
  void accept_some();
  void adopt(UniqueFd fd);
  void pause_accept(int why);
  void accept_again();
  bool close_oldest_silent();
  void read(SessionId id);
  void take_first_bytes(SessionId id, std::string_view bytes);
  void ask(SessionId id, std::string_view bytes);
  void take_answer(SessionId id, std::string_view first_bytes, const Result<void>& answer);
  void set_standing(SessionId id, Standing standing);
  [[nodiscard]] bool is_node(std::string_view first_bytes) const;
  void give_away(SessionId id, std::string_view bytes);
  void flush(SessionId id);
  void flush_touched();
  void arm_work();
  void arm(SessionId id);
  void drop(SessionId id);
  void refuse(SessionId id);
  void control(int operation, int fd, std::uint32_t events, std::uint64_t tag);

  UniqueFd listener_;
  UniqueFd epoll_;
  UniqueFd work_;  // always readable; in the epoll set while the core has work
  bool work_armed_ = false;
  ServerCore core_;
  std::vector<Connection> connections_;
  std::unique_ptr<char[]> buffer_;
  Notice notice_;
  Adopter adopter_;
  AdmissionQueue admissions_;
  std::map<Ticket, SessionId> silent_;  // connections that are silent or admitted, oldest first
  Ticket last_ticket_ = 0;
  AcceptPause accept_pause_{"client"};
  TimePoint went_idle_{};
  TimePoint crowded_until_{};
  std::uint64_t unchecked_turns_ = 0;
  std::uint64_t stored_most_ = 0;  // maximum since memory was last returned to the system
  bool may_spin_ = false;
  bool spin_pays_ = false;
};

}  // namespace muster
