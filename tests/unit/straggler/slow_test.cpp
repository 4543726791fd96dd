// SPDX-License-Identifier: Apache-2.0
#include "straggler/slow.hpp"

#include "support/catch.hpp"

namespace muster::straggler {

TEST_CASE("slow: describes ranks that slow down the others") {
  REQUIRE(describe({.ranks = {3}, .share = 0.312}) ==
          "rank 3 is slow: it costs the job 31 % of its time");
  REQUIRE(describe({.ranks = {2, 5}, .share = 0.2, .step_seconds = 12.34, .lost_seconds = 2.468}) ==
          "ranks 2, 5 are slow: they cost the job 20 % of its time (2.5 s of each step of 12.3 s)");
  REQUIRE(describe({.ranks = {0}, .share = 0.3, .step_seconds = 0.39, .lost_seconds = 0.0042}) ==
          "rank 0 is slow: it costs the job 30 % of its time (4.2 ms of each step of 0.39 s)");
}

TEST_CASE("slow: in a multi-node job it names their nodes") {
  const SlowPlace rank{.node = "b", .ranks = {3}};
  const SlowPlace node{.node = "c", .ranks = {4, 5}, .whole = true};
  REQUIRE(describe({.ranks = {3}, .share = 0.3, .places = {rank}}) ==
          "rank 3 on 'b' is slow: it costs the job 30 % of its time");
  REQUIRE(describe({.ranks = {4, 5}, .share = 0.3, .places = {node}}) ==
          "node 'c' (ranks 4, 5) is slow: it costs the job 30 % of its time");
  REQUIRE(describe({.ranks = {3, 4, 5}, .share = 0.3, .places = {rank, node}}) ==
          "rank 3 on 'b', node 'c' (ranks 4, 5) are slow: they cost the job 30 % of its time");
  // If a rank is the only one on its node, the rank is named.
  REQUIRE(describe(Over{{0}, {{.node = "a", .ranks = {0}, .whole = true}}}) ==
          "rank 0 on 'a' is no longer slow");
  REQUIRE(describe(Over{{1, 2}, {}}) == "ranks 1, 2 are no longer slow");
}

}  // namespace muster::straggler
