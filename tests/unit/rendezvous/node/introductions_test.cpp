// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/node/introductions.hpp"

#include "support/catch.hpp"

using namespace muster;
using namespace std::chrono_literals;

TEST_CASE("introductions: equal ones are accepted, and a refusal does not reveal our job") {
  const Introduction sealed{.proofs = Proofs::token, .job = "ours"};
  const Introduction plain{.proofs = Proofs::none, .job = "ours"};
  CHECK_FALSE(refusal_of(sealed, sealed));
  CHECK_FALSE(refusal_of(plain, plain));
  CHECK(refusal_of(plain, sealed)->why == Refusal::wrong_token);
  CHECK_THAT(refusal_of(plain, sealed)->text, Catch::StartsWith("this job needs a token"));
  CHECK_THAT(refusal_of(sealed, plain)->text, Catch::StartsWith("this job runs without a token"));
  for (const bool with : {true, false}) {
    const auto refusal =
        refusal_of({.proofs = with ? Proofs::token : Proofs::none, .job = "theirs"}, sealed);
    REQUIRE(refusal);
    CHECK(refusal->why == Refusal::wrong_job);
    CHECK_THAT(refusal->text, Catch::Contains("'theirs'") && !Catch::Contains("ours"));
  }
}

TEST_CASE("introductions: accepts nodes with any common proof") {
  const auto refused = [](Proofs theirs, Proofs ours) {
    const auto refusal = refusal_of({.proofs = theirs, .job = "j"}, {.proofs = ours, .job = "j"});
    return refusal ? refusal->text.substr(0, refusal->text.find(',')) : "";
  };
  for (const Proofs one : {Proofs::token, Proofs::munge}) {
    CHECK(refused(one, Proofs::both).empty());
    CHECK(refused(Proofs::both, one).empty());
    CHECK(refused(one, Proofs::none) == "this job runs without a token");
  }
  CHECK(refused(Proofs::both, Proofs::both).empty());
  CHECK(refused(Proofs::token, Proofs::munge) == "this job needs MUNGE");
  CHECK(refused(Proofs::none, Proofs::munge) == "this job needs MUNGE");
  CHECK(refused(Proofs::munge, Proofs::token).starts_with("this job needs a token"));
  CHECK(refused(Proofs::none, Proofs::both).starts_with("this job needs a token"));
}

TEST_CASE("introductions: explains refusals between nodes with and without a token") {
  const auto refused = [](Proofs theirs, Proofs ours) {
    return refusal_of({.proofs = theirs, .job = "j"}, {.proofs = ours, .job = "j"})->text;
  };
  const auto only_one =
      Catch::StartsWith("only one of the two nodes was started with --token=none");
  const Proofs forming = Proofs::first_use | Proofs::job_key;
  for (const Proofs ours : {Proofs::first_use, forming, forming | Proofs::token}) {
    CHECK_THAT(refused(Proofs::none, ours), only_one);
  }
  CHECK_THAT(refused(Proofs::first_use, Proofs::none), only_one);
  for (const Proofs theirs : {Proofs::token, Proofs::munge}) {
    for (const Proofs ours : {Proofs::first_use, forming}) {
      CHECK_THAT(refused(theirs, ours), Catch::StartsWith("this job runs without a token"));
    }
  }
  for (const Proofs theirs : {Proofs::none, Proofs::token, Proofs::first_use}) {
    CHECK_THAT(refused(theirs, Proofs::job_key), Catch::Contains("already formed"));
  }
  CHECK_THAT(refused(Proofs::first_use, Proofs::token),
             Catch::StartsWith("this job needs a token"));
}

TEST_CASE("introductions: reports strangers once per minute and reason, with their number") {
  RefusalTally tally;
  const TimePoint start{};
  const Refuse job{Refusal::wrong_job, "text"};
  CHECK(tally.add(start, "10.0.0.1", job) == "refused node at 10.0.0.1: text");
  for (int i = 0; i < 1000; ++i) {
    CHECK_FALSE(tally.add(start + 59s, "10.0.0.1", job));
  }
  CHECK(tally.add(start + 59s, "10.0.0.2", other_token()).has_value());
  CHECK(tally.add(start + 60s, "10.0.0.3", job) ==
        "refused node at 10.0.0.3 and 1000 others before: text");
  CHECK(tally.add(start + 120s, "10.0.0.3", job) == "refused node at 10.0.0.3: text");
}
