// SPDX-License-Identifier: Apache-2.0
// The memory uses of a kernel's threads are combined into spans; a conflict between two threads is
// an error.
#include "nccl/fakes/cuda/ptx_uses.hpp"

#include "support/catch.hpp"

namespace muster::testing {
namespace {

using fake::gather;
using fake::ThreadUse;

ThreadUse read(std::uint64_t thread, std::uint64_t begin, std::uint16_t bytes = 4) {
  return {.begin = begin, .thread = thread, .line = 1, .bytes = bytes, .write = false};
}

ThreadUse write(std::uint64_t thread, std::uint64_t begin, std::uint16_t bytes = 4) {
  return {.begin = begin, .thread = thread, .line = 2, .bytes = bytes, .write = true};
}

std::string race(const std::vector<ThreadUse>& uses) {
  const auto gathered = gather(uses);
  return gathered ? "" : gathered.error();
}

TEST_CASE("uses: adjacent ranges are merged") {
  const auto uses = gather({read(0, 108), read(1, 100), read(0, 104), write(0, 200), read(2, 116)});
  REQUIRE(uses.has_value());
  REQUIRE(uses->reads.size() == 2);
  CHECK(uses->reads[0].begin == 100);
  CHECK(uses->reads[0].end == 112);
  CHECK(!uses->reads[0].write);
  CHECK(uses->reads[1].begin == 116);
  REQUIRE(uses->writes.size() == 1);
  CHECK(uses->writes[0].write);
  CHECK(uses->allow(read(5, 108)));
  CHECK(!uses->allow(read(5, 110)));
  CHECK(!uses->allow(read(5, 112)));
  CHECK(!uses->allow(read(5, 96)));
  CHECK(!uses->allow(write(5, 100)));
  CHECK(uses->allow(write(5, 200)));
}

TEST_CASE("uses: a thread may read and write its own range, several threads may read one range") {
  CHECK(race({read(0, 100), write(0, 100), read(1, 104, 8), write(1, 108), read(0, 104)}) == "");
  CHECK(race({read(0, 100), read(1, 100), read(2, 100)}) == "");
}

TEST_CASE("uses: a thread may not write a range that another one uses") {
  CHECK(race({write(3, 100), write(4, 100)}) ==
        "thread 4 writes (line 2) what thread 3 writes (line 2), and nothing orders the two");
  CHECK(race({write(3, 100), read(4, 102, 2)}) ==
        "thread 4 reads (line 1) what thread 3 writes (line 2), and nothing orders the two");
  CHECK(race({read(3, 100, 16), write(4, 112)}) ==
        "thread 4 writes (line 2) what thread 3 reads (line 1), and nothing orders the two");
  // The writer's own read extends further than the other thread's.
  CHECK(race({read(3, 100, 16), read(4, 96, 12), write(3, 104)}) ==
        "thread 3 writes (line 2) what thread 4 reads (line 1), and nothing orders the two");
  CHECK(race({read(3, 100, 16), read(4, 102, 8), write(3, 104)}) ==
        "thread 3 writes (line 2) what thread 4 reads (line 1), and nothing orders the two");
  CHECK(race({read(4, 96, 12), read(3, 100, 16), read(5, 104), write(3, 108)}) == "");
}

}  // namespace
}  // namespace muster::testing
