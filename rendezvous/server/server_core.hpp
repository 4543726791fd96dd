// SPDX-License-Identifier: Apache-2.0
// ServerCore: the sessions of one store server. Bytes of a session in, bytes for sessions out, or a
// reason to close one. Pure: it knows no sockets. Used by StoreServer, the fuzzers and the tests.
//
// The caller 1. calls open for a new connection; 2. reads a session only while wants_input, and
// gives the bytes to receive; 3. then, for this session and all of take_touched: sends output,
// tells with sent how much went out, and closes the connection if closing gives a reason; 4. calls
// forget when the connection is gone, for whatever reason.
#pragma once

#include "base/check.hpp"
#include "rendezvous/store/store_core.hpp"
#include "rendezvous/wire/limits.hpp"
#include "rendezvous/wire/store_decoder.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

class ServerCore {
 public:
  explicit ServerCore(const ServerLimits& limits = {}) : limits_(limits), store_(limits) {}

  [[nodiscard]] SessionId open();
  void receive(SessionId id, std::string_view bytes);

  // What to send next; valid until the next call of a function that is not const.
  [[nodiscard]] std::string_view output(SessionId id) const;
  // So much of it was sent, and no more can be for now (0 is fine). Makes room, so that requests
  // held back may be served.
  void sent(SessionId id, std::size_t count);

  // False while a session leaves too many replies unread, and once it is closing.
  [[nodiscard]] bool wants_input(SessionId id) const;

  // Why the session must be closed; empty if it need not be.
  [[nodiscard]] const std::string& closing(SessionId id) const { return sessions_[id].closing; }

  // Whether the session ever spoke the protocol: if not, nobody needs to hear why it was closed.
  [[nodiscard]] bool greeted(SessionId id) const { return sessions_[id].decoder.greeted(); }

  void forget(SessionId id);

  // Sessions that got output, or a reason to be closed, by what others did. Each once.
  [[nodiscard]] std::vector<SessionId> take_touched();

  [[nodiscard]] const StoreCore& store() const { return store_; }

  // Bytes of half requests and unsent replies of all sessions.
  [[nodiscard]] std::uint64_t held_bytes() const { return held_; }

  [[nodiscard]] bool is_open(SessionId id) const {
    return id < sessions_.size() && sessions_[id].open;
  }

  // The first rule that is broken; empty: none is. Debug builds check after each call that changes
  // something.
  [[nodiscard]] std::string check_invariants() const;

 private:
  friend struct StateForTests;

  // An idle session owns no heap memory: its strings are empty and without capacity.
  struct Session {
    StoreDecoder decoder;
    std::string input;   // what could not be decoded or served yet
    std::string unsent;  // replies; the first `sent` bytes of it are gone already
    std::size_t sent = 0;
    std::uint64_t held = 0;  // this session's part of held_
    std::string closing;
    bool open = false;
    bool touched = false;
  };

  [[nodiscard]] std::size_t serve(SessionId id, std::string_view input);
  void serve_input(SessionId id);
  [[nodiscard]] bool output_is_full(const Session& session) const;
  void deliver_pushes();
  void lend_buffer(Session& session);
  void take_back_buffer(Session& session);
  void account(SessionId id);
  void close(Session& session, std::string reason);
  void enforce_held_limit();
  void touch(SessionId id);
  [[nodiscard]] std::string check_session(SessionId id) const;
  void note_step();

  ServerLimits limits_;
  StoreCore store_;
  std::vector<Session> sessions_;
  std::vector<SessionId> free_;
  std::vector<SessionId> touched_;
  std::vector<Push> pushes_;
  std::string spare_;  // the buffer that the session being served borrows for its replies
  std::uint64_t held_ = 0;
  std::uint64_t unchecked_steps_ = 0;
};

}  // namespace muster
