// SPDX-License-Identifier: Apache-2.0
// Parts of elastic::run: what is known about rounds, commits, and whose state all ranks get.
#include "collective/elastic/round_tracker.hpp"
#include "collective/elastic/spare.hpp"
#include "collective/elastic/state.hpp"
#include "collective/elastic/sync.hpp"
#include "unit/collective/world.hpp"

#include <array>
#include <atomic>
#include <set>
#include <vector>

namespace worker = muster::worker;
using namespace muster::collective;
using namespace muster::collective::elastic;
using muster::collective::testing::World;

namespace {

worker::Round round_of(std::uint64_t epoch) {
  worker::Round round;
  round.epoch = epoch;
  round.world_size = 4;
  return round;
}

worker::Gone gone(std::uint64_t epoch, int rank, bool failed = true) {
  return {epoch, rank, 1, failed, "for the test"};
}

class LossWatch final : public PeerWatch {
 public:
  std::atomic<bool> is_lost = false;

  std::optional<Error> failure() const override {
    return is_lost ? std::optional(Error{.code = Errc::peer_failed, .text = "rank 2 was lost"})
                   : std::nullopt;
  }

  void report(const Error& /*error*/) override {}
};

}  // namespace

TEST_CASE("elastic: a round is over when a rank of it was lost or when a later one exists") {
  RoundTracker tracker;
  CHECK(tracker.newer_than({}) == nullptr);
  tracker.receive(round_of(3));
  REQUIRE(tracker.newer_than({}) != nullptr);
  CHECK(tracker.newer_than({})->world_size == 4);
  CHECK(tracker.newer_than(3) == nullptr);
  CHECK_FALSE(tracker.loss(3));

  tracker.receive(gone(3, 2));
  REQUIRE(tracker.loss(3));
  CHECK(tracker.loss(3)->code == Errc::peer_failed);
  CHECK(tracker.loss(3)->rank == 2);
  CHECK(tracker.loss(3)->text == "rank 2 was lost in epoch 3");
  CHECK_FALSE(tracker.loss(4));

  tracker.receive(round_of(5));
  CHECK(tracker.newer_than(3)->epoch == 5);
  CHECK(tracker.loss(4)->rank == -1);
  CHECK_FALSE(tracker.loss(5));
}

TEST_CASE("elastic: a rank that exited without an error ends no round, and news may be late") {
  RoundTracker tracker;
  tracker.receive(round_of(3));
  tracker.receive(gone(3, 1, false));
  tracker.receive(worker::Stop{});
  CHECK_FALSE(tracker.loss(3));
  tracker.receive(gone(3, 1));
  tracker.receive(gone(2, 0));
  tracker.receive(gone(3, 2));
  CHECK(tracker.loss(3)->rank == 1);
}

TEST_CASE("elastic: a state returns to its last commit, and a commit allocates no memory") {
  State state;
  int step = 1;
  std::array<float, 3> weights{1, 2, 3};
  REQUIRE(state.add(&step, sizeof(step)));
  REQUIRE(state.add(weights.data(), sizeof(weights)));
  REQUIRE(state.add(nullptr, 0));
  state.restore();  // there is no commit
  CHECK(step == 1);
  std::set<const std::byte*> copies;
  for (step = 2; step < 7; ++step) {
    weights[2] = static_cast<float>(step);
    REQUIRE(state.commit());
    copies.insert(state.last().data());
    CHECK(state.last().data() != state.spare().data());
  }
  CHECK(copies.size() == 2);
  CHECK(state.commits() == 5);
  weights = {};
  state.restore();
  CHECK(step == 6);
  CHECK(weights == std::array<float, 3>{1, 2, 6});
}

TEST_CASE("elastic: memory cannot be added after the first commit, and must exist") {
  State state;
  const auto none = state.add(nullptr, 4);
  REQUIRE_FALSE(none);
  CHECK(none.error().code == Errc::invalid_argument);
  REQUIRE(state.commit());
  int late = 0;
  const auto refused = state.add(&late, sizeof(late));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::invalid_state);
}

TEST_CASE("elastic: a commit reports the loss of another rank, and is stored") {
  State state;
  int step = 1;
  REQUIRE(state.add(&step, sizeof(step)));
  LossWatch watch;
  state.attach(&watch);
  REQUIRE(state.commit());
  step = 2;
  watch.is_lost = true;
  const auto lost = state.commit();
  REQUIRE_FALSE(lost);
  CHECK(lost.error().text == "rank 2 was lost");
  step = 3;
  state.restore();
  CHECK(step == 2);
}

TEST_CASE("elastic: the lowest rank with the most commits has the state") {
  CHECK(newest_rank(std::array{StateCard{0, 7}, StateCard{0, 7}}) == 0);
  CHECK(newest_rank(std::array{StateCard{0, 7}, StateCard{5, 7}, StateCard{5, 7}}) == 1);
  const auto other = newest_rank(std::array{StateCard{3, 7}, StateCard{3, 7}, StateCard{3, 8}});
  REQUIRE_FALSE(other);
  CHECK(other.error().code == Errc::mismatch);
  CHECK(other.error().rank == 2);
}

TEST_CASE("elastic: all ranks get the newest commit, at the start the values of rank 0") {
  World{.ranks = 3}.run([](Communicator& comm) {
    State state;
    int step = 10 + comm.rank();
    RANK_REQUIRE(state.add(&step, sizeof(step)) && state.prepare());
    RANK_REQUIRE(sync(state, comm));
    RANK_CHECK(step == 10 && state.commits() == 0);
    // Rank 1 makes two commits, the others one. Rank 2 then loses its state.
    for (int i = 0; i < (comm.rank() == 1 ? 2 : 1); ++i) {
      ++step;
      RANK_REQUIRE(state.commit());
    }
    State fresh;
    RANK_REQUIRE(fresh.add(&step, sizeof(step)) && fresh.prepare());
    step = comm.rank() == 2 ? 0 : step;
    State& mine = comm.rank() == 2 ? fresh : state;
    RANK_REQUIRE(sync(mine, comm));
    RANK_CHECK(step == 12 && mine.commits() == 2);
    step = 0;
    mine.restore();
    RANK_CHECK(step == 12);
  });
}

TEST_CASE("elastic: states of different sizes are an error on all ranks") {
  World{.ranks = 2}.run([](Communicator& comm) {
    State state;
    std::array<int, 2> values{1, 2};
    RANK_REQUIRE(state.add(values.data(), comm.rank() == 0 ? 8 : 4) && state.prepare());
    const auto refused = sync(state, comm);
    RANK_CHECK(!refused && refused.error().code == Errc::mismatch);
    RANK_CHECK(!refused && refused.error().text.find("rank 1 has added") != std::string::npos);
  });
}

TEST_CASE("elastic: a rank that waits at startup learns that another rank was lost") {
  LossWatch watch;
  auto store = std::make_shared<muster::testing::LocalStore>();
  std::thread launcher([&] {
    static_cast<void>(store->wait({"waiting"}, std::chrono::seconds(60)));
    watch.is_lost = true;
  });
  REQUIRE(store->set("waiting", ""));
  CommOptions options;
  options.init_timeout = std::chrono::hours(1);
  const auto made = Communicator::create(store, {.rank = 0, .size = 2}, options, &watch);
  launcher.join();
  REQUIRE_FALSE(made);
  CHECK(made.error().text == "rank 2 was lost");
}

TEST_CASE("elastic: a spare worker learns its CPUs and the variables that change") {
  using namespace std::string_literals;
  const SpareStart start = parse_spare_start("0\0001-2\0\0RANK=1\0EMPTY=\0MUSTER_SPARE\0"s);
  CHECK(start.cpus.describe() == "1-2");
  REQUIRE(start.variables.size() == 3);
  CHECK(start.variables[0] == std::pair("RANK"s, std::optional("1"s)));
  CHECK(start.variables[1] == std::pair("EMPTY"s, std::optional(""s)));
  CHECK(start.variables[2] == std::pair("MUSTER_SPARE"s, std::optional<std::string>()));
  CHECK(parse_spare_start("").variables.empty());
}
