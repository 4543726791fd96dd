// SPDX-License-Identifier: Apache-2.0
// WaitBook: the pending waits of all sessions, each with the number of keys that are still missing
// (WAIT and BARRIER; PROTOCOL.md, "Waiting"). A session may have several waits, and each ends with
// one STOP_WAITING. Used by StoreCore, which owns the keys. Pure.
//
// One call does at most as much work as its TurnBudget allows. The rest is a backlog: waiters for
// an existing key that are not woken yet, and cancelled waits whose memory is not freed yet. The
// caller processes it with wake_more and clean_next.
#pragma once

#include "rendezvous/store/entry.hpp"
#include "rendezvous/store/key_map.hpp"
#include "rendezvous/store/turn_budget.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace muster {

class WaitBook {
 public:
  // Starts a wait. The caller adds its keys, possibly over several turns, and then calls seal.
  [[nodiscard]] WaitId open(SessionId session);
  // A key that is added several times counts several times.
  void add_key(WaitId id, KeyMap::value_type& node);
  // Returns true if no key is missing any more. The wait then ends without a push.
  [[nodiscard]] bool seal(WaitId id, TurnBudget& budget);

  // The key was created or changed, so each of its waiters waits for one fewer key.
  void wake_all(Extras& extras, TurnBudget& budget, std::vector<Push>& out);
  void wake_more(TurnBudget& budget, std::vector<Push>& out);

  // Drops cancelled waits from the front of the queue of waiters. False if the budget was used up.
  [[nodiscard]] bool prune_first(Extras& extras, TurnBudget& budget) const;
  // An element was queued: only the oldest waiter is woken. Call after prune_first.
  void wake_first(Extras& extras, TurnBudget& budget, std::vector<Push>& out);

  // Ends all waits of a session without a push.
  void cancel(SessionId session);
  // Ends one wait of a session without a push.
  void cancel(SessionId session, WaitId id);
  // Removes a cancelled wait from one of its keys. Returns this key, so that the caller can drop an
  // empty entry. nullopt if no cancelled wait remains.
  [[nodiscard]] std::optional<std::string> clean_next(KeyMap& map);
  // Frees keys of waits that are over.
  void free_keys(TurnBudget& budget);

  [[nodiscard]] bool has_backlog() const {
    return !waking_.empty() || !cancelled_.empty() || !freed_.empty();
  }

  // The number of keys that a session waits for, including keys that have been set since.
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
    bool cancelled = false;
    bool sealed = false;
    std::uint64_t missing = 0;
    std::uint64_t owner = 0;  // Mine::number when the wait was opened
    std::vector<std::string> keys = {};
  };

  // The waits of one session, oldest first, and the number of keys in all of them.
  struct Mine {
    std::set<WaitId> waits;
    std::uint64_t awaited = 0;
    std::uint64_t number = 0;  // never reused, unlike the session's id
  };

  using Waits = std::unordered_map<WaitId, Wait>;

  [[nodiscard]] bool is_cancelled(const Wait& wait) const;
  void arrived(WaitId id, TurnBudget& budget, std::vector<Push>& out);
  void finish(Waits::iterator at, TurnBudget& budget);
  void unlist(const Wait& wait, WaitId id);
  void uncount(std::uint64_t cost);
  [[nodiscard]] std::string check_waits(const std::map<WaitId, std::uint64_t>& missing) const;
  [[nodiscard]] std::string check_bytes() const;

  Waits waits_;
  std::unordered_map<SessionId, Mine> by_session_;
  WaitId next_id_ = 1;
  std::uint64_t next_number_ = 1;
  std::uint64_t bytes_ = 0;
  // The backlog, oldest first.
  std::deque<std::multiset<WaitId>> waking_;
  std::deque<std::set<WaitId>> cancelled_;
  std::vector<std::vector<std::string>> freed_;
};

}  // namespace muster
