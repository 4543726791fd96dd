// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/round/failure_proof.hpp"

#include "support/catch.hpp"

using namespace muster;
using namespace std::chrono_literals;

namespace {

TimePoint at(Duration since) {
  return TimePoint{} + since;
}

WorkerFailedHere failed(int rank, Duration seen) {
  WorkerFailedHere out;
  out.message.rank = rank;
  out.seen_at = at(seen);
  return out;
}

}  // namespace

TEST_CASE("failure proof: the first failure may be the cause, a later one is a consequence") {
  FailureProof proof;
  proof.begin(at(1s));
  auto first = failed(3, 5s);
  REQUIRE(proof.judge(first));
  CHECK_FALSE(first.message.consequence);
  CHECK(first.seen_at == at(5s));
  auto second = failed(4, 6s);
  REQUIRE(proof.judge(second));
  CHECK(second.message.consequence);
  CHECK(proof.wants_details(3));
  CHECK_FALSE(proof.wants_details(4));
}

TEST_CASE("failure proof: an error file that is older than the stop makes it a possible cause") {
  FailureProof proof;
  proof.begin(at(1s));
  proof.stop(at(10s));
  auto older = failed(3, 12s);
  older.raised_at = at(9s);
  REQUIRE(proof.judge(older));
  CHECK_FALSE(older.message.consequence);
  CHECK(older.seen_at == at(9s));
  auto younger = failed(4, 12s);
  younger.raised_at = at(11s);
  REQUIRE(proof.judge(younger));
  CHECK(younger.message.consequence);
}

TEST_CASE("failure proof: who did what it was told is reported only with a proof") {
  FailureProof proof;
  proof.begin(at(1s));
  proof.stop(at(10s));
  auto obeyed = failed(3, 12s);
  obeyed.was_stopped = true;
  CHECK_FALSE(proof.judge(obeyed));
  obeyed.raised_at = at(9s);
  CHECK(proof.judge(obeyed));
  CHECK_FALSE(obeyed.message.consequence);
}

TEST_CASE("failure proof: dates before the start and after the end are not believed") {
  FailureProof proof;
  proof.begin(at(1s));
  auto early = failed(3, 5s);
  early.raised_at = at(-100s);
  REQUIRE(proof.judge(early));
  CHECK(early.seen_at == at(1s));
  proof.begin(at(6s));
  auto late = failed(3, 8s);
  late.raised_at = at(100s);
  REQUIRE(proof.judge(late));
  CHECK(late.seen_at == at(8s));
}

TEST_CASE("failure proof: each round begins anew") {
  FailureProof proof;
  proof.begin(at(1s));
  proof.stop(at(2s));
  auto late = failed(3, 3s);
  CHECK(proof.judge(late));
  proof.begin(at(4s));
  auto first = failed(3, 5s);
  REQUIRE(proof.judge(first));
  CHECK_FALSE(first.message.consequence);
}

TEST_CASE("failure proof: who lost a connection is no cause beside another, however early") {
  FailureProof proof;
  proof.begin(at(1s));
  proof.stop(at(10s));
  auto lost = failed(3, 12s);
  lost.raised_at = at(9s);
  lost.lost_connection = true;
  REQUIRE(proof.judge(lost));
  CHECK(lost.message.consequence);
  CHECK(proof.wants_details(3));  // in case the other one was not a failure
}

TEST_CASE("failure proof: who lost a connection is the cause where nobody tells of another") {
  FailureProof proof;
  proof.begin(at(1s));
  auto lost = failed(3, 12s);
  lost.lost_connection = true;
  REQUIRE(proof.judge(lost));
  CHECK_FALSE(lost.message.consequence);
}
