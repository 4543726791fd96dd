// SPDX-License-Identifier: Apache-2.0
// StoreCore: the keys, queues and waiters behind the TCPStore protocol. PROTOCOL.md, "Requests",
// defines each request. Pure: the same requests always produce the same replies. Used by
// ServerCore, with one instance per server; single-threaded.
//
// The caller
// 1. sends `reply` to the requesting session, after its earlier replies,
// 2. sends each push to its session,
// 3. closes the session with the reason if a request is refused,
// 4. calls forget when a session has closed, before its number is reused,
// 5. calls begin_turn before the requests of one turn, and advance in later turns while there is a
//    backlog.
#pragma once

#include "base/error.hpp"
#include "rendezvous/store/entry.hpp"
#include "rendezvous/store/key_map.hpp"
#include "rendezvous/store/sorted_names.hpp"
#include "rendezvous/store/turn_budget.hpp"
#include "rendezvous/store/wait_book.hpp"
#include "rendezvous/wire/limits.hpp"
#include "rendezvous/wire/store_messages.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace muster {

class StoreCore {
 public:
  explicit StoreCore(const ServerLimits& limits) : limits_(limits), budget_(limits.turn_units) {}

  // `partly`: the turn's budget is used up, or another session's LIST_KEYS is being served.
  // `request` then contains the rest, and the caller passes it again in a later turn, before any
  // other request of this session. `last`: the request was served, but the turn's budget is used
  // up. The caller passes this session's next request in a later turn.
  enum class Served : std::uint8_t { wholly, last, partly };

  // Appends to `reply` and `pushes`. The reply to a request that is served partly must not be
  // interrupted by pushes. If there is an error (protocol), this turn changes and appends nothing,
  // except for keys of a MULTI_SET and replies of a MULTI_GET from earlier turns.
  [[nodiscard]] Result<Served> handle(SessionId session,
                                      Request& request,
                                      std::string& reply,
                                      std::vector<Push>& pushes);

  // Renews the budget (ServerLimits::turn_units) for the work of the following calls.
  void begin_turn() { budget_ = TurnBudget(limits_.turn_units); }

  // Reduces the backlog within the turn's budget: wakes pending waiters and frees cancelled waits.
  void advance(std::vector<Push>& pushes);

  [[nodiscard]] bool has_backlog() const { return waits_.has_backlog(); }

  // True if a LIST_KEYS of this session has to wait for a LIST_KEYS of another session.
  [[nodiscard]] bool must_wait_to_list(SessionId session) const {
    return listing_ && listing_->session != session;
  }

  void forget(SessionId session);

  // The number of keys with a value.
  [[nodiscard]] std::uint64_t key_count() const { return key_count_; }

  // The number of keys with a value or with extras.
  [[nodiscard]] std::size_t entry_count() const { return keys_.size(); }

  // The sessions that wait, watch or list. A session may be listed twice.
  [[nodiscard]] std::vector<SessionId> sessions() const;

  // The first violated invariant, or empty.
  [[nodiscard]] std::string check_invariants() const;

  // The size that is compared with ServerLimits::stored_bytes.
  [[nodiscard]] std::uint64_t stored_bytes() const { return stored_ + waits_.bytes(); }

 private:
  friend struct StateForTests;
  struct Turn;

  // The part of a request that was served in earlier turns.
  struct Partial {
    WaitId wait = 0;  // 0 if no key is missing so far
    std::uint64_t reply_bytes = 0;
  };

  // A LIST_KEYS that takes several turns. Its reply contains the keys that existed when it began.
  // Only one LIST_KEYS runs at a time, because it copies all names, and each DELETE_KEY checks it.
  struct Listing {
    SessionId session = 0;
    std::size_t next_shard = 0;  // the names in lower shards have been collected
    bool has_begun_reply = false;
    SortedNames names = {};
  };

  [[nodiscard]] Result<void> handle_any(Request& request, Turn& turn);
  [[nodiscard]] Result<void> handle_rare(Request& request, Turn& turn);
  [[nodiscard]] Result<void> set(std::string_view key, std::string_view value, Turn& turn);
  [[nodiscard]] Result<void> compare_set(const Request& request, Turn& turn);
  [[nodiscard]] Result<void> get(std::string_view key, Turn& turn) const;
  [[nodiscard]] Result<void> add(const Request& request, Turn& turn);
  [[nodiscard]] Result<void> append(const Request& request, Turn& turn);
  [[nodiscard]] Result<void> multi_get(Request& request, Turn& turn);
  [[nodiscard]] Result<void> multi_set(Request& request, Turn& turn);
  [[nodiscard]] Result<void> list_keys(Turn& turn);
  [[nodiscard]] Result<bool> collect_names();
  void collect_deleted(const KeyMap::value_type& node);
  [[nodiscard]] bool is_listed(const Entry& entry) const;
  void check(Request& request, Turn& turn);
  void delete_key(std::string_view key, Turn& turn);

  [[nodiscard]] Result<void> wait(Request& request, Turn& turn);
  [[nodiscard]] Result<void> wait_for(Request& request, WaitId& id, Turn& turn);
  [[nodiscard]] Result<void> add_key(std::string_view key, WaitId& id, Turn& turn);
  [[nodiscard]] Result<void> barrier(const Request& request, Turn& turn);
  void clean();

  [[nodiscard]] Result<void> queue_push(const Request& request, Turn& turn);
  void queue_pop(std::string_view key, Turn& turn);
  void queue_len(std::string_view key, Turn& turn) const;

  [[nodiscard]] Result<void> watch(std::string_view key, Turn& turn);
  void tell_watchers(const KeyMap::value_type& node,
                     WatchNotice notice,
                     std::string_view old_value,
                     Turn& turn);

  // Returns the entry of a key. Creates the entry if it does not exist.
  [[nodiscard]] KeyMap::value_type& node_for(std::string_view key, Turn& turn);
  // Charges the budget for work that a client could repeat with many small requests in one read.
  void spend(std::uint64_t units, Turn& turn);
  void drop_if_empty(KeyMap::value_type& node);
  // Sets the key's value, and notifies waiters and watchers.
  void assign(KeyMap::value_type& node, std::string_view value, Turn& turn);
  // Sets the value without notifications.
  void assign_silently(Entry& entry, std::string_view value);
  [[nodiscard]] std::string check_watchers() const;
  // Checks that this number of additional bytes may be stored. An upper bound is sufficient.
  [[nodiscard]] Result<void> fits(std::uint64_t bytes) const;

  ServerLimits limits_;
  KeyMap keys_;
  WaitBook waits_;
  std::unordered_map<SessionId, std::vector<std::string>> watched_;
  std::unordered_map<SessionId, Partial> partial_;
  std::optional<Listing> listing_;
  std::uint64_t listings_ = 0;  // number of listings begun
  TurnBudget budget_;
  std::uint64_t key_count_ = 0;
  std::uint64_t stored_ = 0;
};

}  // namespace muster
