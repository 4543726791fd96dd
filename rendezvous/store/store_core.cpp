// SPDX-License-Identifier: Apache-2.0
// Requests for keys and values. store_core_listing.cpp handles LIST_KEYS, and
// store_core_waiting.cpp handles waits, queues and watches.
#include "rendezvous/store/store_core.hpp"

#include "base/check.hpp"
#include "rendezvous/store/decimal.hpp"
#include "rendezvous/store/turn.hpp"
#include "rendezvous/wire/store_encoder.hpp"

#include <utility>

namespace muster {

Result<StoreCore::Served> StoreCore::handle(SessionId session,
                                            Request& request,
                                            std::string& reply,
                                            std::vector<Push>& pushes) {
  Turn turn{session, reply, pushes};
  if (auto done = handle_any(request, turn); !done) [[unlikely]] {
    return std::unexpected(std::move(done.error()));
  }
  return turn.served;
}

Result<void> StoreCore::handle_any(Request& request, Turn& turn) {
  switch (request.opcode) {
    case Opcode::set:
      return set(request.key, request.value, turn);
    case Opcode::get:
      return get(request.key, turn);
    case Opcode::add:
      return add(request, turn);
    case Opcode::check:
      check(request, turn);
      return {};
    case Opcode::wait:
      return wait(request, turn);
    default:
      return handle_rare(request, turn);
  }
}

Result<void> StoreCore::handle_rare(Request& request, Turn& turn) {
  switch (request.opcode) {
    case Opcode::compare_set:
      return compare_set(request, turn);
    case Opcode::append:
      return append(request, turn);
    case Opcode::multi_get:
      return multi_get(request, turn);
    case Opcode::multi_set:
      return multi_set(request, turn);
    case Opcode::list_keys:
      return list_keys(turn);
    case Opcode::barrier:
      return barrier(request, turn);
    case Opcode::queue_push:
      return queue_push(request, turn);
    case Opcode::watch_key:
      return watch(request.key, turn);
    case Opcode::queue_pop:
      queue_pop(request.key, turn);
      break;
    case Opcode::queue_len:
      queue_len(request.key, turn);
      break;
    case Opcode::delete_key:
      delete_key(request.key, turn);
      break;
    case Opcode::get_num_keys:
      append_int(turn.reply, static_cast<std::int64_t>(key_count_));
      break;
    case Opcode::cancel_wait:
      waits_.cancel(turn.session);
      clean();
      append_int(turn.reply, kWaitCanceled);
      break;
    case Opcode::ping:
      append_int(turn.reply, static_cast<std::uint32_t>(request.number));
      break;
    default:
      // VALIDATE contains nothing beyond what the decoder has used. All other requests are handled
      // above.
      MUSTER_CHECK(request.opcode == Opcode::validate);
  }
  return {};
}

Result<void> StoreCore::set(std::string_view key, std::string_view value, Turn& turn) {
  // This is an upper bound: the size of a replaced value or of an existing entry is not subtracted.
  if (auto room = fits(key.size() + value.size() + kEntryCost); !room) {
    return room;
  }
  assign(node_for(key, turn), value, turn);
  return {};
}

Result<void> StoreCore::compare_set(const Request& request, Turn& turn) {
  const auto* const at = keys_.find(request.key);
  const bool exists = at != nullptr && at->second.exists;
  const std::string_view current = exists ? std::string_view(at->second.value) : std::string_view();
  if (current != request.value) {
    // If the key is missing, reply with the expected value, as the reference implementation does,
    // because clients compare it.
    append_bytes(turn.reply, exists ? current : request.value);
    return {};
  }
  if (auto stored = set(request.key, request.desired, turn); !stored) {
    return stored;
  }
  append_bytes(turn.reply, request.desired);
  return {};
}

Result<void> StoreCore::get(std::string_view key, Turn& turn) const {
  const auto* const at = keys_.find(key);
  const std::string_view value =
      at == nullptr ? std::string_view() : std::string_view(at->second.value);
  // APPEND can make a value longer than any request.
  if (value.size() > limits_.reply_bytes) {
    return refused("GET of a value", value.size(), limits_.reply_bytes);
  }
  append_bytes(turn.reply, value);
  return {};
}

Result<void> StoreCore::add(const Request& request, Turn& turn) {
  if (auto room = fits(request.key.size() + kEntryCost + sizeof(DecimalText)); !room) {
    return room;
  }
  // Only an ADD to an existing value can fail below, so an error leaves no empty entry behind.
  auto& node = node_for(request.key, turn);
  std::int64_t number = 0;
  if (node.second.exists) {
    const auto before = leading_decimal(node.second.value);
    if (!before) {
      return failure(Errc::protocol, "ADD to a value that is not a number: " + node.first);
    }
    number = *before;
  }
  // Unsigned arithmetic wraps as in the reference implementation, whereas signed overflow is
  // undefined.
  number = static_cast<std::int64_t>(static_cast<std::uint64_t>(number) +
                                     static_cast<std::uint64_t>(request.number));
  assign(node, DecimalText(number).view(), turn);
  append_int(turn.reply, number);
  return {};
}

Result<void> StoreCore::append(const Request& request, Turn& turn) {
  if (auto room = fits(request.key.size() + request.value.size() + kEntryCost); !room) {
    return room;
  }
  auto& node = node_for(request.key, turn);
  const bool watched = node.second.extras && !node.second.extras->watchers.empty();
  if (!node.second.exists || watched) {
    assign(node, node.second.value + std::string(request.value), turn);
    return {};
  }
  // Extend the value in place, because copying it for each APPEND would take quadratic time.
  stored_ += request.value.size();
  node.second.value.append(request.value);
  return {};
}

Result<void> StoreCore::multi_get(Request& request, Turn& turn) {
  // A refused request appends nothing, so the reply is then cut back to this size.
  const std::size_t start = turn.reply.size();
  const auto before = partial_.find(turn.session);
  // The limit applies to the whole reply. Earlier turns may have sent a part of it.
  const std::uint64_t sent = before == partial_.end() ? 0 : before->second.reply_bytes;
  for (; request.count > 0 && !budget_.used_up(); --request.count) {
    const std::size_t had = turn.reply.size();
    if (auto got = get(take_item(request.items), turn); !got) {
      turn.reply.resize(start);
      return got;
    }
    const std::uint64_t size = sent + turn.reply.size() - start;
    if (size > limits_.reply_bytes) {
      turn.reply.resize(start);
      return refused("MULTI_GET with a reply", size, limits_.reply_bytes);
    }
    budget_.spend_key(turn.reply.size() - had);
  }
  if (request.count > 0) {
    partial_[turn.session].reply_bytes = sent + turn.reply.size() - start;
    turn.served = Served::partly;
  } else if (before != partial_.end()) {
    partial_.erase(before);
  }
  return {};
}

Result<void> StoreCore::multi_set(Request& request, Turn& turn) {
  // Check all remaining pairs before the first one is stored, so that a refused turn stores
  // nothing.
  if (auto room = fits(request.items.size() + request.count * kEntryCost); !room) {
    return room;
  }
  for (; request.count > 0 && !budget_.used_up(); --request.count) {
    const std::string_view key = take_item(request.items);
    const std::string_view value = take_item(request.items);
    budget_.spend_key(value.size());
    assign(node_for(key, turn), value, turn);
  }
  if (request.count > 0) {
    turn.served = Served::partly;
  }
  return {};
}

void StoreCore::check(Request& request, Turn& turn) {
  for (; request.count > 0 && !budget_.used_up(); --request.count) {
    const auto* const at = keys_.find(take_item(request.items));
    if (at == nullptr || !at->second.ready()) {
      append_int(turn.reply, kCheckNotReady);
      return;
    }
    budget_.spend(1);
  }
  if (request.count > 0) {
    turn.served = Served::partly;
    return;
  }
  append_int(turn.reply, kCheckReady);
}

void StoreCore::delete_key(std::string_view key, Turn& turn) {
  auto* const at = keys_.find(key);
  const bool existed = at != nullptr && at->second.exists;
  append_int(turn.reply, std::int64_t{existed ? 1 : 0});
  if (!existed) {
    return;
  }
  if (listing_) [[unlikely]] {
    collect_deleted(*at);
  }
  const std::string old_value = std::exchange(at->second.value, {});
  at->second.exists = false;
  MUSTER_CHECK(key_count_ > 0 && stored_ >= old_value.size());
  --key_count_;
  stored_ -= old_value.size();
  // The key's queue and waiters remain (PROTOCOL.md), so the entry stays until they are gone too.
  tell_watchers(*at, WatchNotice::deleted, old_value, turn);
  drop_if_empty(*at);
  spend(1, turn);
}

KeyMap::value_type& StoreCore::node_for(std::string_view key, Turn& turn) {
  const auto [node, is_new, moved] = keys_.find_or_insert(key);
  if (is_new) [[unlikely]] {
    stored_ += key.size() + kEntryCost;
    // Moving this many entries takes less time than one unit.
    constexpr std::size_t kMovedForUnit = 8;
    spend(1 + moved / kMovedForUnit, turn);
  }
  return node;
}

void StoreCore::spend(std::uint64_t units, Turn& turn) {
  budget_.spend(units);
  if (budget_.used_up()) {
    turn.served = Served::last;
  }
}

void StoreCore::drop_if_empty(KeyMap::value_type& node) {
  Entry& entry = node.second;
  if (entry.extras && entry.extras->empty()) {
    entry.extras.reset();
  }
  if (!entry.exists && !entry.extras) {
    MUSTER_CHECK(entry.value.empty() && stored_ >= node.first.size() + kEntryCost);
    stored_ -= node.first.size() + kEntryCost;
    keys_.erase(node);
  }
}

void StoreCore::assign(KeyMap::value_type& node, std::string_view value, Turn& turn) {
  Entry& entry = node.second;
  if (!entry.extras) [[likely]] {
    assign_silently(entry, value);
    return;
  }
  const WatchNotice notice = entry.exists ? WatchNotice::updated : WatchNotice::created;
  const std::string old_value = entry.extras->watchers.empty() ? std::string() : entry.value;
  // Store the value immediately, although waking many waiters may take several turns.
  assign_silently(entry, value);
  waits_.wake_all(*entry.extras, budget_, turn.pushes);
  tell_watchers(node, notice, old_value, turn);
  // wake_all() has taken the waiters, so an entry without queue and watchers needs no extras.
  if (entry.extras->empty()) {
    entry.extras.reset();
  }
}

void StoreCore::assign_silently(Entry& entry, std::string_view value) {
  constexpr std::size_t kSlack = 64;
  MUSTER_CHECK(stored_ >= entry.value.size());
  stored_ += value.size();
  stored_ -= entry.value.size();
  entry.value.assign(value);
  // stored_ counts the size and not the capacity, so a short value must not keep the memory of a
  // long one.
  if (entry.value.capacity() > 2 * value.size() + kSlack) [[unlikely]] {
    entry.value.shrink_to_fit();
  }
  if (!entry.exists) {
    entry.exists = true;
    entry.born = listings_;
    ++key_count_;
  }
}

Result<void> StoreCore::fits(std::uint64_t bytes) const {
  if (stored_bytes() + bytes > limits_.stored_bytes) [[unlikely]] {
    return failure(Errc::protocol,
                   "the store is full: it holds " + std::to_string(stored_bytes()) +
                       " bytes; the limit is " + std::to_string(limits_.stored_bytes));
  }
  return {};
}

}  // namespace muster
