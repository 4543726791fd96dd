// SPDX-License-Identifier: Apache-2.0
// WaitBook: which session waits for how many keys still (WAIT and BARRIER; PROTOCOL.md,
// "Waiting"). A session may have several waits; each ends with one STOP_WAITING. Used by StoreCore,
// which owns the keys. Pure.
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
  // `keys` are not empty and have their entries in the map; each is counted once for each time
  // that it is named.
  void add(SessionId session, std::vector<std::string> keys, KeyMap& map);

  // The key came into being or changed: every waiter of it has one key less to wait for.
  void wake_all(Extras& extras, std::vector<Push>& out);

  // An element was queued: only the waiter that came first has.
  void wake_first(Extras& extras, std::vector<Push>& out);

  // Drops all waits of a session; returns the keys that it waited for, so that the caller can drop
  // what is empty now.
  [[nodiscard]] std::vector<std::string> cancel(SessionId session, KeyMap& map);

  // Keys that a session waits for, those that came meanwhile counted too.
  [[nodiscard]] std::uint64_t awaited(SessionId session) const;

  // Those that wait, each once.
  [[nodiscard]] std::vector<SessionId> sessions() const;

  // The first rule that is broken; empty: none is.
  [[nodiscard]] std::string check_invariants(const KeyMap& map) const;

  // Memory of all waits, by the costs in entry.hpp.
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

  // The waits of one session, in the order in which they came, and the keys of all of them.
  struct Mine {
    std::set<WaitId> waits;
    std::uint64_t awaited = 0;
  };

  std::unordered_map<SessionId, Mine> by_session_;
  WaitId next_id_ = 1;
  std::uint64_t bytes_ = 0;
};

}  // namespace muster
