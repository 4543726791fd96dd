// SPDX-License-Identifier: Apache-2.0
// ServerCore: the sessions of one store server. It takes bytes from a session, and returns bytes to
// send or a reason to close a session. Pure; independent of sockets. Used by StoreServer, the
// fuzzers and the tests.
//
// The caller
// 1. calls open for each new connection,
// 2. reads from a session only while wants_input is true, and passes the bytes to receive,
// 3. then, for this session and all of take_touched: sends output, passes the number of bytes sent
//    to sent(), and closes the connection if closing returns a reason,
// 4. calls forget when the connection is closed for any reason,
// 5. calls advance repeatedly while has_work is true, and in between serves other sessions.
#pragma once

#include "base/check.hpp"
#include "rendezvous/store/store_core.hpp"
#include "rendezvous/wire/limits.hpp"
#include "rendezvous/wire/store_decoder.hpp"

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace muster {

class ServerCore {
 public:
  explicit ServerCore(const ServerLimits& limits = {}) : limits_(limits), store_(limits) {}

  [[nodiscard]] SessionId open();
  void receive(SessionId id, std::string_view bytes);

  // The bytes to send next; valid until the next call to a non-const function.
  [[nodiscard]] std::string_view output(SessionId id) const;
  // Call after sending `count` bytes (possibly 0), when the kernel accepts no more. This frees
  // space, so requests that were held back may be served.
  void sent(SessionId id, std::size_t count);

  // False while a session has too many unsent replies or an unfinished request, and once it is
  // closing.
  [[nodiscard]] bool wants_input(SessionId id) const;

  // Why the session must be closed. Empty if it may stay open.
  [[nodiscard]] const std::string& closing(SessionId id) const { return sessions_[id].closing; }

  // True if the session ever used the protocol. If not, its closing is not logged.
  [[nodiscard]] bool greeted(SessionId id) const { return sessions_[id].decoder.greeted(); }

  void forget(SessionId id);

  // True if work remains for later turns: the rest of a large request, WAITs that can be completed,
  // or the cleanup after a session.
  [[nodiscard]] bool has_work() const { return store_.has_backlog() || !unfinished_.empty(); }

  // Processes the remaining work for one turn, at most ServerLimits::turn_units.
  void advance();

  // Sessions that other sessions or advance() have affected: they have output, must be closed, or
  // may want input again. Each session is listed once.
  [[nodiscard]] std::vector<SessionId> take_touched();

  [[nodiscard]] const StoreCore& store() const { return store_; }

  // The bytes of partial requests and unsent replies in all sessions.
  [[nodiscard]] std::uint64_t held_bytes() const { return held_; }

  [[nodiscard]] bool is_open(SessionId id) const {
    return id < sessions_.size() && sessions_[id].open;
  }

  // The first violated invariant, or empty. Debug builds check after each modifying call.
  [[nodiscard]] std::string check_invariants() const;

 private:
  friend struct StateForTests;

  // An idle session owns no heap memory: its strings are empty and have no capacity.
  struct Session {
    StoreDecoder decoder;
    std::string input;   // bytes that are not decoded or served yet
    std::string unsent;  // replies; the first `sent` bytes are already sent
    std::size_t sent = 0;
    std::uint64_t held = 0;  // this session's share of held_
    std::uint64_t late = 0;  // bytes in late_pushes_
    std::string closing;
    bool open = false;
    bool touched = false;
    bool unfinished = false;  // the session's next request is in unfinished_
  };

  // The rest of a request whose bytes are at the start of its session's input. If `end` is 0, no
  // part of the request has been served, and it is decoded again.
  struct Unfinished {
    SessionId session = 0;
    Opcode opcode = Opcode::validate;
    std::uint64_t count = 0;
    std::size_t items_at = 0;
    std::size_t end = 0;
  };

  // What follows a request: the session's next request, or a pause before or after this request. If
  // the pause comes before the request, its bytes must stay at the start of the session's input.
  enum class Next : std::uint8_t { request, pause_before, pause_after };

  [[nodiscard]] std::size_t serve(SessionId id, std::string_view input);
  void serve_input(SessionId id, std::size_t used = 0);
  [[nodiscard]] std::size_t pause(SessionId id, std::size_t used, std::string_view input);
  [[nodiscard]] Next answer(SessionId id, Request& request, std::string_view whole);
  void postpone(const Unfinished& rest);
  void resume_one();
  void resume(const Unfinished& rest);
  [[nodiscard]] bool output_is_full(const Session& session) const;
  void deliver_pushes();
  void deliver_late_pushes(SessionId id);
  void lend_buffer(Session& session);
  void take_back_buffer(Session& session);
  void account(SessionId id);
  void close(SessionId id, std::string reason);
  void drop_unfinished(SessionId id);
  void enforce_held_limit();
  void touch(SessionId id);
  [[nodiscard]] std::string check_session(SessionId id) const;
  void note_step();

  ServerLimits limits_;
  StoreCore store_;
  std::vector<Session> sessions_;
  std::vector<SessionId> free_;
  std::vector<SessionId> touched_;
  std::deque<Unfinished> unfinished_;  // served round-robin
  std::vector<Push> pushes_;
  // Pushes for sessions with an unfinished request. They must not interrupt the reply to that
  // request, so they are sent after it.
  std::unordered_map<SessionId, std::string> late_pushes_;
  std::string spare_;  // the reply buffer, lent to the session being served
  std::uint64_t held_ = 0;
  std::uint64_t unchecked_steps_ = 0;
};

}  // namespace muster
