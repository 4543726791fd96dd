// SPDX-License-Identifier: Apache-2.0
// KeyMap: the entries of all keys, in shards. Each shard is a hash table that grows separately,
// because growing a single table for all keys would block every client for milliseconds. Used by
// StoreCore and WaitBook. Entries stay at their addresses until they are erased.
#pragma once

#include "rendezvous/store/entry.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace muster {

class KeyMap {
  // The shard and its bucket both depend on the hash, which is computed once.
  struct HashedKey {
    std::string_view key;
    std::size_t hash;
  };

  struct Hash {
    using is_transparent = void;

    std::size_t operator()(std::string_view key) const {
      return std::hash<std::string_view>{}(key);
    }

    std::size_t operator()(const HashedKey& key) const { return key.hash; }
  };

  struct Equal {
    using is_transparent = void;

    bool operator()(std::string_view one, std::string_view other) const { return one == other; }

    bool operator()(const HashedKey& one, std::string_view other) const { return one.key == other; }
  };

 public:
  // Unordered for speed. No reply depends on the order, because LIST_KEYS sorts.
  using Shard = std::unordered_map<std::string, Entry, Hash, Equal>;
  using value_type = Shard::value_type;

  static constexpr std::size_t kShards = 256;

  // nullptr if the key has no entry.
  [[nodiscard]] value_type* find(std::string_view key) {
    const HashedKey hashed{key, Hash{}(key)};
    Shard& shard = shards_[shard_of(hashed.hash)];
    const auto at = shard.find(hashed);
    return at == shard.end() ? nullptr : &*at;
  }

  [[nodiscard]] const value_type* find(std::string_view key) const {
    return const_cast<KeyMap*>(this)->find(key);
  }

  struct Found {
    value_type& node;
    bool is_new;
    std::size_t moved;  // the number of entries moved by the growth of a hash table
  };

  // Adds an empty entry if the key has none.
  [[nodiscard]] Found find_or_insert(std::string_view key) {
    const HashedKey hashed{key, Hash{}(key)};
    Shard& shard = shards_[shard_of(hashed.hash)];
    const auto at = shard.find(hashed);
    return at == shard.end() ? insert(shard, key) : Found{*at, false, 0};
  }

  // Invalidates `node`.
  void erase(const value_type& node);

  [[nodiscard]] std::size_t size() const { return size_; }

  [[nodiscard]] std::span<const Shard> shards() const { return shards_; }

  [[nodiscard]] static std::size_t shard_of(std::string_view key) { return shard_of(Hash{}(key)); }

 private:
  // The shard depends on the top bits of the hash. Its table takes the hash modulo a prime number,
  // which depends on all bits.
  [[nodiscard]] static std::size_t shard_of(std::size_t hash) {
    constexpr unsigned kShift = 8 * sizeof(hash) - 8;
    static_assert(kShards == 256);
    return hash >> kShift;
  }

  Found insert(Shard& shard, std::string_view key);

  std::array<Shard, kShards> shards_;
  std::size_t size_ = 0;
};

}  // namespace muster
