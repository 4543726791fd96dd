// SPDX-License-Identifier: Apache-2.0
// LIST_KEYS, in several turns: the names are collected shard by shard, sorted, and sent. Keys that
// are created or deleted in the meantime do not change the reply.
#include "rendezvous/store/store_core.hpp"
#include "rendezvous/store/turn.hpp"
#include "rendezvous/wire/store_encoder.hpp"

namespace muster {

Result<void> StoreCore::list_keys(Turn& turn) {
  turn.served = Served::partly;
  if (must_wait_to_list(turn.session)) {
    return {};
  }
  if (!listing_) {
    listing_ = Listing{.session = turn.session};
    ++listings_;
  }
  const auto collected = collect_names();
  if (!collected) {
    listing_.reset();
    return std::unexpected(collected.error());
  }
  SortedNames& names = listing_->names;
  if (!*collected || !names.sort(budget_)) {
    return {};
  }
  if (!std::exchange(listing_->has_begun_reply, true)) {
    append_int(turn.reply, static_cast<std::int64_t>(names.count()));
  }
  for (; !names.empty() && !budget_.used_up(); names.pop()) {
    append_bytes(turn.reply, names.front());
    budget_.spend_key(names.front().size());
  }
  if (names.empty()) {
    listing_.reset();
    turn.served = Served::wholly;
  }
  return {};
}

// Returns whether all names have been collected.
Result<bool> StoreCore::collect_names() {
  Listing& listing = *listing_;
  for (; listing.next_shard < KeyMap::kShards && !budget_.used_up(); ++listing.next_shard) {
    const KeyMap::Shard& shard = keys_.shards()[listing.next_shard];
    for (const auto& [key, entry] : shard) {
      if (is_listed(entry)) {
        listing.names.add(key);
      }
    }
    budget_.spend(shard.size());
  }
  const std::uint64_t size = listing.names.bytes() + listing.names.count() * sizeof(std::uint64_t);
  if (size > limits_.reply_bytes) {
    return refused("LIST_KEYS with a reply", size, limits_.reply_bytes);
  }
  return listing.next_shard == KeyMap::kShards;
}

bool StoreCore::is_listed(const Entry& entry) const {
  return entry.exists && entry.born < listings_;
}

// Call before the key is deleted.
void StoreCore::collect_deleted(const KeyMap::value_type& node) {
  if (is_listed(node.second) && KeyMap::shard_of(node.first) >= listing_->next_shard) {
    listing_->names.add(node.first);
  }
}

}  // namespace muster
