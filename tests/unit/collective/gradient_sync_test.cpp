// SPDX-License-Identifier: Apache-2.0
#include "collective/gradient_sync.hpp"

#include "support/catch.hpp"
#include "unit/collective/world.hpp"

#include <bit>
#include <cmath>
#include <mutex>
#include <semaphore>

namespace muster::collective {
namespace {

using testing::World;

constexpr std::size_t kCounts[] = {3, 1000, 17, 40000, 1, 2500};
constexpr int kParameters = 6;

float value(int rank, int id, std::size_t i) {
  return 1.0F / static_cast<float>(7 * (rank + 1) + 13 * id + static_cast<int>(i % 97) + 1);
}

void fill(GradientSync& sync, int rank, int id) {
  auto* const data = static_cast<float*>(*sync.grad(id));
  for (std::size_t i = 0; i < kCounts[id]; ++i) {
    data[i] = value(rank, id, i);
  }
}

bool add_all(GradientSync& sync) {
  for (int id = 0; id < kParameters; ++id) {
    const auto added = sync.add("p" + std::to_string(id), DType::f32, kCounts[id]);
    if (!added || *added != id) {
      return false;
    }
  }
  return sync.finalize().has_value();
}

std::vector<std::uint32_t> bits(const GradientSync& sync) {
  std::vector<std::uint32_t> out;
  for (int id = 0; id < kParameters; ++id) {
    const auto* const data = static_cast<const float*>(*sync.grad(id));
    for (std::size_t i = 0; i < kCounts[id]; ++i) {
      out.push_back(std::bit_cast<std::uint32_t>(data[i]));
    }
  }
  return out;
}

Result<GradientStats> step(GradientSync& sync, int rank, const std::vector<int>& order) {
  MUSTER_RETURN_IF_ERROR(sync.begin());
  for (const int id : order) {
    fill(sync, rank, id);
    MUSTER_RETURN_IF_ERROR(sync.mark_ready(id));
  }
  return sync.wait();
}

const std::vector<int> kBackward{5, 4, 3, 2, 1, 0};

// The gradients after one step on rank 1 of `ranks`.
std::vector<std::uint32_t> one_step(int ranks, const GradientSyncOptions& options) {
  std::vector<std::uint32_t> out;
  World{.ranks = ranks}.run([&](Communicator& comm) {
    GradientSync sync(comm, options);
    RANK_REQUIRE(add_all(sync));
    const auto done = step(sync, comm.rank(), kBackward);
    RANK_REQUIRE(done.has_value());
    if (comm.rank() == ranks - 1) {
      out = bits(sync);
    }
  });
  return out;
}

TEST_CASE("gradient sync: averages over ranks in rank order") {
  const auto result = one_step(3, {});
  std::size_t at = 0;
  for (int id = 0; id < kParameters; ++id) {
    for (std::size_t i = 0; i < kCounts[id]; ++i) {
      const float sum = (value(0, id, i) + value(1, id, i)) + value(2, id, i);
      if (result.at(at++) != std::bit_cast<std::uint32_t>(sum / 3)) {
        FAIL("parameter " << id << " element " << i);
      }
    }
  }
}

TEST_CASE("gradient sync: the same bits for every bucket size, inline or in a second thread") {
  const auto want = one_step(3, {});
  CHECK(one_step(3, {.buckets = {.first = 64, .cap = 64}}) == want);
  CHECK(one_step(3, {.buckets = {.first = 100, .cap = 20000}, .background = false}) == want);
  CHECK(one_step(3, {.buckets = {.first = 1UL << 30, .cap = 1UL << 30}}) == want);
}

TEST_CASE("gradient sync: bf16 on the wire is exact within its rounding") {
  const auto want = one_step(2, {});
  const auto have = one_step(2, {.wire = DType::bf16});
  REQUIRE(have.size() == want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    const float a = std::bit_cast<float>(want[i]);
    if (std::fabs(a - std::bit_cast<float>(have[i])) > a / 64) {
      FAIL("element " << i);
    }
  }
  CHECK(have != want);
}

TEST_CASE("gradient sync: buckets follow rank 0's order after the first step") {
  World{.ranks = 2}.run([](Communicator& comm) {
    GradientSync sync(comm, {.buckets = {.first = 64, .cap = 16384}});
    RANK_REQUIRE(add_all(sync));
    const std::vector<int> forward{0, 1, 2, 3, 4, 5};
    const auto first = step(sync, comm.rank(), comm.rank() == 0 ? forward : kBackward);
    RANK_REQUIRE(first.has_value());
    RANK_CHECK(first->moved);
    RANK_CHECK(sync.plan().buckets[0].parameters == std::vector<int>{0});
    const auto after = bits(sync);
    const auto second = step(sync, comm.rank(), forward);
    RANK_REQUIRE(second.has_value());
    RANK_CHECK(!second->moved);
    RANK_CHECK(bits(sync) == after);
  });
}

TEST_CASE("gradient sync: accumulating steps send nothing") {
  World{.ranks = 2}.run([](Communicator& comm) {
    GradientSync sync(comm);
    RANK_REQUIRE(add_all(sync));
    RANK_CHECK(sync.begin(false).has_value());
    fill(sync, comm.rank(), 0);
    RANK_CHECK(sync.mark_ready(0).has_value());
    const auto stats = sync.wait();
    RANK_REQUIRE(stats.has_value());
    RANK_CHECK(stats->buckets == 0);
    RANK_CHECK(static_cast<float*>(*sync.grad(0))[0] == value(comm.rank(), 0, 0));
    sync.zero();
    RANK_CHECK(static_cast<float*>(*sync.grad(0))[0] == 0);
  });
}

TEST_CASE("gradient sync: bound memory, and gradients that no rank used stay unchanged") {
  World{.ranks = 2}.run([](Communicator& comm) {
    GradientSync sync(comm, {.average = false, .owns_memory = false, .has_unused = true});
    RANK_REQUIRE(add_all(sync));
    std::vector<std::vector<float>> mine;
    for (int id = 0; id < kParameters; ++id) {
      mine.emplace_back(kCounts[id], static_cast<float>(comm.rank() + 1));
    }
    RANK_REQUIRE(sync.begin().has_value());
    RANK_CHECK(!sync.mark_ready(0).has_value());
    for (int id = 0; id < kParameters; ++id) {
      RANK_CHECK(sync.bind(id, mine[static_cast<std::size_t>(id)].data()).has_value());
    }
    for (const int id : kBackward) {
      const bool unused = id == 2 || (id == 4 && comm.rank() == 1);
      RANK_CHECK((unused ? sync.mark_unused(id) : sync.mark_ready(id)).has_value());
    }
    RANK_REQUIRE(sync.wait().has_value());
    RANK_CHECK(mine[0][0] == 3);
    RANK_CHECK(mine[2][0] == static_cast<float>(comm.rank() + 1));
    RANK_CHECK(mine[4][0] == 1);
    RANK_CHECK(!sync.used(2) && sync.used(4));
  });
}

TEST_CASE("gradient sync: error messages name the mistake") {
  World{.ranks = 2}.run([](Communicator& comm) {
    GradientSync sync(comm);
    const auto text = [](const auto& result) { return result ? "" : result.error().text; };
    RANK_CHECK(text(sync.begin()).find("finalize was not called") != std::string::npos);
    RANK_REQUIRE(add_all(sync));
    RANK_CHECK(text(sync.mark_ready(1)).find("outside of a step") != std::string::npos);
    RANK_CHECK(sync.begin().has_value());
    RANK_CHECK(text(sync.begin()).find("begin was called twice") != std::string::npos);
    RANK_CHECK(sync.mark_ready(1).has_value());
    RANK_CHECK(text(sync.mark_ready(1)).find("'p1' was marked twice") != std::string::npos);
    RANK_CHECK(text(sync.mark_ready(6)).find("no gradient 6") != std::string::npos);
    RANK_CHECK(text(sync.wait()).find("5 gradients were not marked in this step: 'p0', 'p2'") !=
               std::string::npos);
  });
}

TEST_CASE("gradient sync: ranks with different models get an error with the first difference") {
  World{.ranks = 2}.run([](Communicator& comm) {
    GradientSync sync(comm);
    RANK_CHECK(sync.add("a", DType::f32, 10).has_value());
    RANK_CHECK(sync.add("b", DType::f32, comm.rank() == 0 ? 10 : 11).has_value());
    const auto done = sync.finalize();
    RANK_REQUIRE(!done.has_value());
    RANK_CHECK(done.error().code == Errc::mismatch);
    RANK_CHECK(done.error().text.find("parameter 1 'b'") != std::string::npos);
    RANK_CHECK(comm.barrier().has_value());
  });
}

TEST_CASE("gradient sync: a hook may process each bucket in any way") {
  World{.ranks = 2}.run([](Communicator& comm) {
    std::size_t called = 0;
    GradientSyncOptions options{.buckets = {.first = 64, .cap = 200000}};
    std::vector<GradientBucketView> seen;
    options.hook = [&](Communicator& by, const GradientBucketView& bucket) {
      ++called;
      seen.push_back(bucket);
      return by.all_reduce(bucket.buffer, bucket.buffer, Op::max);
    };
    GradientSync sync(comm, options);
    RANK_REQUIRE(add_all(sync));
    const GradientPlan first_plan = sync.plan();
    RANK_REQUIRE(step(sync, comm.rank(), kBackward).has_value());
    RANK_CHECK(called == sync.plan().buckets.size());
    for (std::size_t i = 0; i < seen.size(); ++i) {
      const auto& parameters = first_plan.buckets[i].parameters;
      RANK_CHECK(seen[i].index == i && seen[i].is_last == (i + 1 == seen.size()));
      RANK_CHECK(seen[i].buffer.count == first_plan.buckets[i].count);
      RANK_REQUIRE(seen[i].gradients.size() == parameters.size());
      for (std::size_t g = 0; g < parameters.size(); ++g) {
        const int id = parameters[g];
        const auto at = static_cast<std::size_t>(id);
        RANK_CHECK(seen[i].gradients[g] ==
                   GradientSlice{id, first_plan.places[at].first, kCounts[id]});
      }
    }
    RANK_CHECK(static_cast<float*>(*sync.grad(1))[5] == value(0, 1, 5));
  });
}

TEST_CASE("gradient sync: a bucket that was not launched fails the step on every rank that waits") {
  World{.ranks = 1}.run([](Communicator& comm) {
    bool fails = true;
    GradientSyncOptions options{.buckets = {.first = 64, .cap = 64}};
    options.hook = [&fails](Communicator& by, const GradientBucketView& bucket) {
      return fails ? Result<Work>(failure(Errc::unsupported, "not this one"))
                   : by.all_reduce(bucket.buffer, bucket.buffer, Op::sum);
    };
    GradientSync sync(comm, options);
    RANK_REQUIRE(add_all(sync));
    RANK_CHECK(sync.begin().has_value());
    for (const int id : kBackward) {
      static_cast<void>(sync.mark_ready(id).has_value());
    }
    const auto failed = sync.wait();
    RANK_REQUIRE(!failed.has_value());
    RANK_CHECK(failed.error().text == "not this one");
    fails = false;
    RANK_CHECK(step(sync, comm.rank(), kBackward).has_value());
  });
}

TEST_CASE("gradient sync: sums accumulated gradients, even of parameters unused in the last step") {
  for (const bool owns : {true, false}) {
    World{.ranks = 2}.run([owns](Communicator& comm) {
      GradientSync sync(comm, {.average = false, .owns_memory = owns, .has_unused = true});
      RANK_REQUIRE(add_all(sync));
      std::vector<std::vector<float>> mine;
      for (int id = 0; id < kParameters; ++id) {
        mine.emplace_back(kCounts[id], 0.0F);
        RANK_CHECK(owns || sync.bind(id, mine.back().data()).has_value());
      }
      const auto first = [&](int id) -> float& {
        return owns ? *static_cast<float*>(*sync.grad(id)) : mine[static_cast<std::size_t>(id)][0];
      };
      // Rank 0 used gradient 3 before; no rank has ever used gradient 2.
      RANK_REQUIRE(sync.begin(false).has_value());
      first(3) = comm.rank() == 0 ? 5 : 70;
      RANK_CHECK((comm.rank() == 0 ? sync.mark_ready(3) : sync.mark_unused(3)).has_value());
      RANK_REQUIRE(sync.wait().has_value());
      for (int round = 0; round < 2; ++round) {
        RANK_REQUIRE(sync.begin().has_value());
        for (const int id : kBackward) {
          const bool unused = id == 2 || id == 3;
          RANK_CHECK((unused ? sync.mark_unused(id) : sync.mark_ready(id)).has_value());
        }
        RANK_REQUIRE(sync.wait().has_value());
        RANK_CHECK(!sync.used(2) && sync.used(3) == (round == 0));
        RANK_CHECK(first(3) == (round == 0 || !owns ? 5 : 0));
      }
    });
  }
}

TEST_CASE("gradient sync: a wait that timed out can be repeated") {
  std::binary_semaphore given_up_by_rank_0{0};
  World{.ranks = 2}.run([&](Communicator& comm) {
    GradientSync sync(comm, {.reorder = false});
    RANK_REQUIRE(add_all(sync));
    RANK_REQUIRE(sync.begin().has_value());
    const auto mark_all = [&] {
      for (const int id : kBackward) {
        fill(sync, comm.rank(), id);
        RANK_CHECK(sync.mark_ready(id).has_value());
      }
    };
    if (comm.rank() == 0) {
      mark_all();
      const auto given_up = sync.wait(std::chrono::milliseconds(20));
      RANK_REQUIRE(!given_up.has_value());
      RANK_CHECK(given_up.error().code == Errc::timeout);
      RANK_CHECK(!comm.error());
      given_up_by_rank_0.release();
    } else {
      given_up_by_rank_0.acquire();
      mark_all();
    }
    RANK_CHECK(sync.wait().has_value());
    RANK_CHECK(static_cast<float*>(*sync.grad(1))[5] == (value(0, 1, 5) + value(1, 1, 5)) / 2);
  });
}

TEST_CASE(
    "gradient sync: the default bucket cap on the host is 2 MiB, after a first one of 1 MiB") {
  World{.ranks = 2}.run([](Communicator& comm) {
    GradientSync sync(comm);
    constexpr std::size_t kQuarter = 64 * 1024;  // elements: 256 KiB
    constexpr int kGradients = 20;               // 5 MiB
    for (int id = 0; id < kGradients; ++id) {
      RANK_REQUIRE(sync.add("q" + std::to_string(id), DType::f32, kQuarter).has_value());
    }
    RANK_REQUIRE(sync.finalize().has_value());
    RANK_REQUIRE(sync.begin().has_value());
    for (int id = kGradients - 1; id >= 0; --id) {
      RANK_CHECK(sync.mark_ready(id).has_value());
    }
    const auto stats = sync.wait();
    RANK_REQUIRE(stats.has_value());
    RANK_CHECK(stats->buckets == 3);
    RANK_CHECK(stats->bytes == 5UL << 20);
    std::vector<std::size_t> bytes;
    for (const GradientBucket& bucket : sync.plan().buckets) {
      bytes.push_back(bucket.count * sizeof(float));
    }
    RANK_CHECK(bytes == std::vector<std::size_t>{1UL << 20, 2UL << 20, 2UL << 20});
  });
}

TEST_CASE("gradient sync: finalize reports a hook that only one rank has") {
  World{.ranks = 2}.run([](Communicator& comm) {
    GradientSyncOptions options;
    if (comm.rank() == 1) {
      options.hook = [](Communicator&, const GradientBucketView&) { return Result<Work>(Work()); };
    }
    GradientSync sync(comm, options);
    RANK_CHECK(sync.add("a", DType::f32, 10).has_value());
    const auto done = sync.finalize();
    RANK_REQUIRE(!done.has_value());
    RANK_CHECK(done.error().code == Errc::mismatch);
    RANK_CHECK(
        done.error().text.find(comm.rank() == 1 ? "on the host, a hook" : "on the host, no hook") !=
        std::string::npos);
  });
}

TEST_CASE("gradient sync: after a failure it continues with another communicator") {
  World{.ranks = 2}.run([](Communicator& comm) {
    GradientSync sync(comm);
    RANK_REQUIRE(add_all(sync));
    RANK_REQUIRE(sync.begin().has_value());
    fill(sync, comm.rank(), 5);
    if (comm.rank() == 0) {
      comm.abort("test");
    }
    Membership next;
    next.rank = comm.rank();
    next.size = 2;
    next.epoch = 1;
    auto again = comm.rebuild(next);
    RANK_REQUIRE(again.has_value());
    RANK_REQUIRE(sync.rebind(*again).has_value());
    RANK_CHECK(static_cast<float*>(*sync.grad(5))[7] == value(comm.rank(), 5, 7));
    RANK_CHECK(step(sync, comm.rank(), kBackward).has_value());
    RANK_CHECK(static_cast<float*>(*sync.grad(5))[7] == (value(0, 5, 7) + value(1, 5, 7)) / 2);
    sync = GradientSync(*again);  // before the communicator is destroyed
  });
}

}  // namespace
}  // namespace muster::collective
