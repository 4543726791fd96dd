// SPDX-License-Identifier: Apache-2.0
#include "collective/shm/staging_copy.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <vector>

namespace muster::collective {
namespace {

using std::chrono::microseconds;

constexpr std::size_t kBytes = 64UL * 1024;  // 1,024 lines
constexpr Duration kCheap = microseconds(10);
constexpr Duration kDear = microseconds(40);

TEST_CASE("staging copy: streams after an expensive copy, and tries a plain one again later") {
  StoreChoice choice;
  choice.copied(kBytes, kCheap);
  CHECK_FALSE(choice.streams());
  choice.copied(kBytes, kDear);
  for (int i = 0; i < kStreamedCopies; ++i) {
    CHECK(choice.streams());
    choice.copied(kBytes, kDear);  // the cost of a streamed copy affects no decision
  }
  CHECK_FALSE(choice.streams());
  choice.copied(kBytes, kDear);
  CHECK(choice.streams());
}

TEST_CASE("staging copy: ignores the cost of short copies") {
  StoreChoice choice;
  choice.copied(kLeastJudged - 1, kDear);
  CHECK_FALSE(choice.streams());
}

TEST_CASE("staging copy: a stream of any length and alignment writes exactly its range") {
  constexpr std::size_t kRoom = 512;
  for (std::size_t shift = 0; shift < 20; ++shift) {
    for (std::size_t bytes = 0; bytes < kRoom - 64; ++bytes) {
      std::vector<char> from(kRoom + shift);
      std::ranges::generate(from, [i = 0]() mutable { return static_cast<char>(++i * 37); });
      alignas(64) char to[kRoom] = {};
      stream_copy(to, from.data() + shift, bytes);
      const bool same = std::equal(to, to + bytes, from.data() + shift);
      const bool rest = std::all_of(to + bytes, to + kRoom, [](char c) { return c == 0; });
      if (!same || !rest) {
        FAIL("shift " << shift << ", " << bytes << " bytes");
      }
    }
  }
}

}  // namespace
}  // namespace muster::collective
