// SPDX-License-Identifier: Apache-2.0
// WaitBook: the pending waits of all sessions, each with the number of keys that are still missing
// (WAIT and BARRIER; PROTOCOL.md, "Waiting"). A session may have several waits, and each ends with
// one STOP_WAITING. Used by StoreCore, which owns the keys. Pure.
#pragma once

#include "rendezvous/store/entry.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace muster {

class WaitBook {
 public:
  // `keys` must not be empty, and each key must have an entry in the map. A key that is listed
  // several times counts several times.
  void add(SessionId session, std::vector<std::string> keys, KeyMap& map);

  // The key was created or changed: all of its waiters wait for one key fewer.
  void wake_all(Extras& extras, std::vector<Push>& out);

  // An element was queued: only the oldest waiter is woken.
  void wake_first(Extras& extras, std::vector<Push>& out);

  // Drops all waits of a session. Returns the keys for which it waited, so that the caller can drop
  // empty entries.
  [[nodiscard]] std::vector<std::string> cancel(SessionId session, KeyMap& map);

  // The number of keys for which a session waits, including keys that have been set since.
  [[nodiscard]] std::uint64_t awaited(SessionId session) const;

  // The sessions that wait. Each is listed once.
  [[nodiscard]] std::vector<SessionId> sessions() const;

  // The first violated invariant, or empty.
  [[nodiscard]] std::string check_invariants(const KeyMap& map) const;

  // The memory used by all waits, according to the costs in entry.hpp.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  friend struct StateForTests;

  struct Wait {
    SessionId session = 0;
    std::uint64_t missing = 0;
    std::vector<std::string> keys;
  };

  [[nodiscard]] static std::uint64_t cost_of(const std::vector<std::string>& keys);
  void arrived(WaitId id, std::vector<Push>& out);

  std::unordered_map<WaitId, Wait> waits_;

  // The waits of one session, oldest first, and the number of keys in all of them.
  struct Mine {
    std::set<WaitId> waits;
    std::uint64_t awaited = 0;
  };

  std::unordered_map<SessionId, Mine> by_session_;
  WaitId next_id_ = 1;
  std::uint64_t bytes_ = 0;
};

}  // namespace muster
