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

TEST_CASE("failure proof: the first failure may be the cause, later ones are consequences") {
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

TEST_CASE("failure proof: a failure whose error file precedes the stop may be the cause") {
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

TEST_CASE("failure proof: a failure of a stopped worker is reported only with proof") {
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

TEST_CASE("failure proof: times before the start and in the future are clamped") {
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

TEST_CASE("failure proof: each round starts from scratch") {
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

TEST_CASE(
    "failure proof: a lost connection is no cause if there is another failure, however early") {
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

TEST_CASE("failure proof: a lost connection is the cause if no other failure is reported") {
  FailureProof proof;
  proof.begin(at(1s));
  auto lost = failed(3, 12s);
  lost.lost_connection = true;
  REQUIRE(proof.judge(lost));
  CHECK_FALSE(lost.message.consequence);
}
