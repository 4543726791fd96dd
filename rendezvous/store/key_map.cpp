// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/key_map.hpp"

#include <algorithm>

namespace muster {

KeyMap::Found KeyMap::insert(Shard& shard, std::string_view key) {
  const std::size_t buckets = shard.bucket_count();
  auto& node = *shard.emplace(std::string(key), Entry{}).first;
  ++size_;
  return {node, true, shard.bucket_count() == buckets ? 0 : shard.size()};
}

void KeyMap::erase(const value_type& node) {
  const HashedKey hashed{node.first, Hash{}(node.first)};
  Shard& shard = shards_[shard_of(hashed.hash)];
  shard.erase(shard.find(hashed));
  --size_;
  // Shrinks the hash table of a store that used to be large.
  constexpr std::size_t kBucketsKept = 64;
  constexpr std::size_t kBucketsForEach = 8;
  if (shard.bucket_count() > std::max(kBucketsKept, kBucketsForEach * shard.size())) [[unlikely]] {
    shard.rehash(2 * shard.size());
  }
}

}  // namespace muster
