// SPDX-License-Identifier: Apache-2.0
// Invariants of the sessions, which hold between two calls and are checked by recounting. Debug
// builds, tests and fuzzers run these checks.
#include "rendezvous/server/server_core.hpp"
#include "rendezvous/server/session_sockets.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster {
namespace {

std::string of_session(std::size_t id, std::string_view broken) {
  return "session " + std::to_string(id) + ": " + std::string(broken);
}

// How often each session occurs in the list.
std::vector<std::size_t> times(const std::vector<SessionId>& ids, std::size_t sessions) {
  std::vector<std::size_t> out(sessions);
  for (const SessionId id : ids) {
    ++out.at(id);
  }
  return out;
}

}  // namespace

std::string ServerCore::check_session(SessionId id) const {
  const Session& session = sessions_[id];
  if (session.sent > session.unsent.size()) {
    return of_session(id, "sent more bytes than it had");
  }
  if (session.held != session.input.size() + session.unsent.size() + session.late) {
    return of_session(id, "counted bytes do not match its buffers");
  }
  if (!session.closing.empty() && !session.input.empty()) {
    return of_session(id, "is closing but keeps requests");
  }
  if (session.unfinished && session.input.empty()) {
    return of_session(id, "has an unfinished request without its bytes");
  }
  if (!session.open && (session.held != 0 || !session.closing.empty())) {
    return of_session(id, "has closed but keeps data");
  }
  return {};
}

std::string ServerCore::check_invariants() const {
  const auto free = times(free_, sessions_.size());
  const auto touched = times(touched_, sessions_.size());
  std::vector<SessionId> unfinished;
  for (const Unfinished& rest : unfinished_) {
    unfinished.push_back(rest.session);
  }
  const auto queued = times(unfinished, sessions_.size());
  std::uint64_t held = 0;
  for (SessionId id = 0; id < sessions_.size(); ++id) {
    if (std::string broken = check_session(id); !broken.empty()) {
      return broken;
    }
    if (free[id] != (sessions_[id].open ? 0U : 1U)) {
      return of_session(id, "open flag and free list are inconsistent");
    }
    if (touched[id] != (sessions_[id].touched ? 1U : 0U)) {
      return of_session(id, "touched flag and touched list are inconsistent");
    }
    if (queued[id] != (sessions_[id].unfinished ? 1U : 0U)) {
      return of_session(id, "unfinished flag and queue are inconsistent");
    }
    held += sessions_[id].held;
  }
  for (const auto& [id, bytes] : late_pushes_) {
    if (!sessions_.at(id).unfinished || sessions_.at(id).late != bytes.size()) {
      return of_session(id, "late pushes do not match its unfinished request");
    }
  }
  if (held != held_) {
    return "held bytes: counter is " + std::to_string(held_) + ", actual count is " +
           std::to_string(held);
  }
  if (held_ > limits_.held_bytes) {
    return "the sessions hold more than the limit allows";
  }
  if (!pushes_.empty()) {
    return "bytes for a session were not delivered";
  }
  for (const SessionId id : store_.sessions()) {
    if (!is_open(id)) {
      return of_session(id, "has closed but still waits or watches");
    }
  }
  return store_.check_invariants();
}

// The cost of a full recount is proportional to the number of sessions and keys. With few sessions
// and keys, the recount runs after each step. With many, it runs so rarely that the average cost
// per step remains constant.
void ServerCore::note_step() {
  if constexpr (kChecksInvariants) {
    constexpr std::uint64_t kShare = 16;
    if (++unchecked_steps_ * kShare < sessions_.size() + store_.entry_count()) {
      return;
    }
    unchecked_steps_ = 0;
    if (const std::string broken = check_invariants(); !broken.empty()) {
      check_failed(broken, __FILE__, __LINE__);
    }
  }
}

std::string SessionSockets::check_connection(SessionId id) const {
  const Connection& connection = connections_[id];
  if (static_cast<bool>(connection.fd) != core_.is_open(id)) {
    return of_session(id, "socket and open flag are inconsistent");
  }
  const auto silent = silent_.find(connection.ticket);
  const bool is_silent =
      connection.standing == Standing::silent || connection.standing == Standing::admitted;
  if (is_silent != (silent != silent_.end() && silent->second == id)) {
    return of_session(id, "silent state and silent list are inconsistent");
  }
  const bool is_asking = connection.standing == Standing::asking;
  if (is_asking != admissions_.holds(connection.ticket)) {
    return of_session(id, "asking state and admission queue are inconsistent");
  }
  if (connection.fd && !is_asking && ((connection.armed & EPOLLIN) != 0) != core_.wants_input(id)) {
    return of_session(id, "registered events and wanted input are inconsistent");
  }
  return {};
}

std::string SessionSockets::check_invariants() const {
  std::size_t listed = 0;
  for (SessionId id = 0; id < connections_.size(); ++id) {
    if (std::string broken = check_connection(id); !broken.empty()) {
      return broken;
    }
    listed += connections_[id].standing == Standing::client ? 0U : 1U;
  }
  if (listed != silent_.size() + admissions_.size()) {
    return "a listed connection does not exist";
  }
  return core_.check_invariants();
}

// Checks at the same rate as ServerCore.
void SessionSockets::note_turn() {
  if constexpr (kChecksInvariants) {
    constexpr std::uint64_t kShare = 16;
    if (++unchecked_turns_ * kShare < connections_.size() + core_.store().entry_count()) {
      return;
    }
    unchecked_turns_ = 0;
    if (const std::string broken = check_invariants(); !broken.empty()) {
      check_failed(broken, __FILE__, __LINE__);
    }
  }
}

}  // namespace muster
