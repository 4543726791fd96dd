// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/key_map.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <string>

using namespace muster;

TEST_CASE("key map: no growth moves more than a small share of the entries") {
  constexpr std::size_t kKeys = 50'000;
  KeyMap map;
  std::size_t most = 0;
  for (std::size_t i = 0; i < kKeys; ++i) {
    const auto [node, is_new, moved] = map.find_or_insert("/key/" + std::to_string(i));
    REQUIRE(is_new);
    node.second.value = std::to_string(i);
    most = std::max(most, moved);
  }
  CHECK(map.size() == kKeys);
  CHECK(most > 0);
  CHECK(most <= kKeys / 100);
  for (std::size_t i = 0; i < kKeys; ++i) {
    const std::string key = "/key/" + std::to_string(i);
    REQUIRE(map.find(key) != nullptr);
    REQUIRE(map.find(key)->second.value == std::to_string(i));
    REQUIRE_FALSE(map.find_or_insert(key).is_new);
    map.erase(*map.find(key));
    REQUIRE(map.find(key) == nullptr);
  }
  CHECK(map.size() == 0);
  // Emptied tables have given their memory back.
  for (const KeyMap::Shard& shard : map.shards()) {
    REQUIRE(shard.bucket_count() < kKeys / KeyMap::kShards);
  }
}

TEST_CASE("key map: the shards contain all keys, each in its own shard") {
  KeyMap map;
  for (int i = 0; i < 1000; ++i) {
    static_cast<void>(map.find_or_insert(std::to_string(i)));
  }
  std::size_t count = 0;
  for (std::size_t i = 0; i < KeyMap::kShards; ++i) {
    for (const auto& [key, entry] : map.shards()[i]) {
      REQUIRE(KeyMap::shard_of(key) == i);
      ++count;
    }
  }
  CHECK(count == map.size());
}
