// SPDX-License-Identifier: Apache-2.0
// StoreCore: the keys, queues and waiters behind the TCPStore protocol. PROTOCOL.md, "Requests",
// defines each request. Pure: the same requests always produce the same replies. Used by
// ServerCore, with one instance per server; single-threaded.
//
// The caller
// 1. sends `reply` to the requesting session, after its earlier replies,
// 2. sends each push to its session,
// 3. closes the session with the reason if a request is refused,
// 4. calls forget when a session has closed, before its number is reused.
#pragma once

#include "base/error.hpp"
#include "rendezvous/store/entry.hpp"
#include "rendezvous/store/wait_book.hpp"
#include "rendezvous/wire/limits.hpp"
#include "rendezvous/wire/store_messages.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace muster {

class StoreCore {
 public:
  explicit StoreCore(const ServerLimits& limits) : limits_(limits) {}

  // Appends to `reply` and `pushes`. If there is an error (protocol), nothing is changed or
  // appended.
  [[nodiscard]] Result<void> handle(SessionId session,
                                    const Request& request,
                                    std::string& reply,
                                    std::vector<Push>& pushes);

  void forget(SessionId session);

  // The number of keys with a value.
  [[nodiscard]] std::uint64_t key_count() const { return key_count_; }

  // The number of keys with a value or with extras.
  [[nodiscard]] std::size_t entry_count() const { return keys_.size(); }

  // The sessions that wait or watch. A session may be listed twice.
  [[nodiscard]] std::vector<SessionId> sessions() const;

  // The first violated invariant, or empty.
  [[nodiscard]] std::string check_invariants() const;

  // The size that is compared with ServerLimits::stored_bytes.
  [[nodiscard]] std::uint64_t stored_bytes() const { return stored_ + waits_.bytes(); }

 private:
  friend struct StateForTests;
  struct Turn;

  [[nodiscard]] Result<void> handle_rare(const Request& request, Turn& turn);
  [[nodiscard]] Result<void> set(std::string_view key, std::string_view value, Turn& turn);
  [[nodiscard]] Result<void> compare_set(const Request& request, Turn& turn);
  [[nodiscard]] Result<void> get(std::string_view key, Turn& turn) const;
  [[nodiscard]] Result<void> add(const Request& request, Turn& turn);
  [[nodiscard]] Result<void> append(const Request& request, Turn& turn);
  [[nodiscard]] Result<void> multi_get(const Request& request, Turn& turn) const;
  [[nodiscard]] Result<void> multi_set(const Request& request, Turn& turn);
  [[nodiscard]] Result<void> list_keys(Turn& turn) const;
  void check(const Request& request, Turn& turn) const;
  void delete_key(std::string_view key, Turn& turn);

  [[nodiscard]] Result<void> wait(const Request& request, Turn& turn);
  [[nodiscard]] Result<void> barrier(const Request& request, Turn& turn);
  [[nodiscard]] Result<void> add_wait(std::vector<std::string> missing, Turn& turn);
  void cancel_wait(SessionId session);

  [[nodiscard]] Result<void> queue_push(const Request& request, Turn& turn);
  void queue_pop(std::string_view key, Turn& turn);
  void queue_len(std::string_view key, Turn& turn) const;

  [[nodiscard]] Result<void> watch(std::string_view key, Turn& turn);
  void tell_watchers(const KeyMap::value_type& node,
                     WatchNotice notice,
                     std::string_view old_value,
                     Turn& turn);

  // Returns the entry of a key, which is created if it does not exist.
  [[nodiscard]] KeyMap::value_type& node_for(std::string_view key);
  void drop_if_empty(KeyMap::iterator at);
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
  std::uint64_t key_count_ = 0;
  std::uint64_t stored_ = 0;
};

}  // namespace muster
