// SPDX-License-Identifier: Apache-2.0
#include "collective/shm/shm.hpp"

#include "base/clock.hpp"
#include "support/catch.hpp"
#include "unit/collective/local_store.hpp"
#include "unit/collective/operations.hpp"

#include <array>
#include <functional>
#include <latch>
#include <thread>

namespace muster::collective {
namespace {

using testing::Bytes;
using testing::Operation;

constexpr Kind kKinds[] = {Kind::barrier,
                           Kind::all_reduce,
                           Kind::reduce,
                           Kind::broadcast,
                           Kind::all_gather,
                           Kind::reduce_scatter,
                           Kind::all_to_all};

std::unique_ptr<Segment> join(muster::testing::LocalStore& store,
                              std::size_t ranks,
                              std::size_t self) {
  SegmentPlan plan;
  plan.self = self;
  plan.layout = shm_layout(ranks);
  plan.arena_bytes = 64UL << 20;
  plan.name = "test";
  for (std::size_t i = 0; i < ranks; ++i) {
    plan.ranks.push_back(static_cast<int>(i));
  }
  auto segment = Segment::join({.store = &store,
                                .prefix = "t/",
                                .rank = static_cast<int>(self),
                                .size = static_cast<int>(ranks),
                                .deadline = steady_now() + std::chrono::seconds(20)},
                               plan);
  return segment ? std::move(*segment) : nullptr;
}

// Each rank is a thread with its own Shm.
void with_ranks(std::size_t ranks, const std::function<void(Shm&, Segment&)>& rank_main) {
  muster::testing::LocalStore store;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks; ++i) {
    threads.emplace_back([&, i] {
      if (auto segment = join(store, ranks, i)) {
        Shm shm(*segment);
        rank_main(shm, *segment);
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
}

enum class Memory { own, shared, mixed };

// Runs the operations on all ranks in this order and returns the errors.
std::vector<std::string> run_all(const std::vector<Operation>& operations,
                                 std::size_t ranks,
                                 Memory memory) {
  std::vector<std::vector<Bytes>> outputs(operations.size(), std::vector<Bytes>(ranks));
  std::vector<std::string> errors(ranks);
  with_ranks(ranks, [&](Shm& shm, Segment& segment) {
    const std::size_t self = segment.self();
    for (std::size_t k = 0; k < operations.size(); ++k) {
      const Operation& operation = operations[k];
      const bool shared = memory == Memory::shared || (memory == Memory::mixed && self % 2 == 0);
      Bytes own(shared ? 0 : operation.room() + 1);
      const auto allocated = shared ? shm.alloc(operation.room()) : Result<void*>(own.data());
      if (!allocated) {
        errors[self] = allocated.error().text;
        return;
      }
      auto* const at = static_cast<char*>(*allocated);
      operation.fill(at, self);
      Request request = operation.request;
      request.seq = k + 1;
      request.deadline = steady_now() + std::chrono::seconds(30);
      request.in = at + operation.in_at(self);
      request.out = at + operation.out_at(self);
      const auto done = shm.run(Step(request));
      if (!done) {
        errors[self] = done.error().text;
        return;
      }
      outputs[k][self] = operation.output(at, self);
      if (shared && !shm.free(at)) {
        errors[self] = "free";
      }
    }
  });
  for (std::size_t k = 0; k < operations.size(); ++k) {
    const std::string wrong = operations[k].check(outputs[k]);
    if (!wrong.empty()) {
      errors.push_back(operations[k].request.describe() + ": " + wrong);
    }
  }
  std::erase(errors, "");
  return errors;
}

int root_of(Kind kind, std::size_t ranks) {
  return kind == Kind::reduce || kind == Kind::broadcast ? static_cast<int>(ranks) - 1 : -1;
}

std::vector<Operation> operations_of(Kind kind, std::size_t ranks, std::uint64_t seed) {
  std::vector<Operation> out;
  for (const std::size_t count : {0UL, 1UL, 7UL, 1000UL, 8192UL, 50001UL, 300000UL}) {
    for (const bool in_place : {false, true}) {
      const Request request{.kind = kind, .count = count, .root = root_of(kind, ranks)};
      Request typed = request;
      typed.dtype = DType::f32;
      out.emplace_back(typed, ranks, seed, in_place);
    }
  }
  return out;
}

TEST_CASE("shm: each operation, 1 to 8 ranks, sizes from zero to several rounds",
          "[slow][not_tsan]") {
  const muster::testing::Seed seed;
  INFO(seed.describe());
  for (const Kind kind : kKinds) {
    for (const std::size_t ranks : {1UL, 2UL, 3UL, 5UL, 8UL}) {
      const auto operations = operations_of(kind, ranks, seed.value());
      for (const Memory memory : {Memory::own, Memory::shared, Memory::mixed}) {
        INFO(name_of(kind) << " " << ranks << " ranks, memory " << static_cast<int>(memory));
        CHECK(run_all(operations, ranks, memory) == std::vector<std::string>{});
      }
    }
  }
}

TEST_CASE("shm: each operation and type, small and large", "[slow]") {
  const muster::testing::Seed seed;
  INFO(seed.describe());
  std::vector<Operation> operations;
  for (const Op op : testing::kAllOps) {
    for (const DType dtype : testing::kHostTypes) {
      for (const std::size_t count : {33UL, 70001UL}) {
        operations.emplace_back(
            Request{.kind = Kind::all_reduce, .op = op, .dtype = dtype, .count = count, .scale = 3},
            3,
            seed.value());
      }
    }
  }
  CHECK(run_all(operations, 3, Memory::own) == std::vector<std::string>{});
  CHECK(run_all(operations, 3, Memory::shared) == std::vector<std::string>{});
}

TEST_CASE("shm: sums have the same bits in every memory layout and for every split") {
  const std::size_t count = 200000;
  const std::size_t cuts[] = {0, 3, 4099, 199999, count};
  const Operation whole({.kind = Kind::all_reduce, .dtype = DType::f32, .count = count}, 3, 5);
  std::vector<Bytes> results(6);
  with_ranks(3, [&](Shm& shm, Segment& segment) {
    const std::size_t self = segment.self();
    Bytes own(count * 4);
    const auto shared = shm.alloc(count * 4);
    std::uint64_t seq = 0;
    const auto sum = [&](char* at, std::size_t first, std::size_t last) {
      const auto done = shm.run(Step{Request{.kind = Kind::all_reduce,
                                             .dtype = DType::f32,
                                             .count = last - first,
                                             .in = at + first * 4,
                                             .out = at + first * 4,
                                             .seq = ++seq,
                                             .deadline = steady_now() + std::chrono::seconds(30)}});
      return done.has_value();
    };
    bool good = shared.has_value();
    auto* const at = static_cast<char*>(*shared);
    whole.fill(own.data(), self);
    good = good && sum(own.data(), 0, count);
    whole.fill(at, self);
    good = good && sum(at, 0, count);
    const Bytes first = own;
    const bool same = std::equal(own.begin(), own.end(), at);
    whole.fill(own.data(), self);
    for (std::size_t i = 0; i + 1 < std::size(cuts); ++i) {
      good = good && sum(own.data(), cuts[i], cuts[i + 1]);
    }
    results[self] = good && same ? first : Bytes{};
    results[3 + self] = own;
  });
  for (const Bytes& result : results) {
    CHECK(result == results[0]);
  }
  CHECK(results[0].size() == count * 4);
}

Error error_of(const Result<void>& result) {
  return result ? Error{} : result.error();
}

TEST_CASE("shm: ranks that disagree both get an error with both calls") {
  std::vector<Error> errors(2);
  with_ranks(2, [&](Shm& shm, Segment& segment) {
    std::vector<float> data(100);
    Request request{.kind = Kind::all_reduce,
                    .dtype = DType::f32,
                    .count = segment.self() == 0 ? 10UL : 12UL,
                    .in = data.data(),
                    .out = data.data(),
                    .seq = 1,
                    .deadline = steady_now() + std::chrono::seconds(20)};
    errors[segment.self()] = error_of(shm.run(Step(request)));
  });
  for (const Error& error : errors) {
    INFO(error.text);
    CHECK(error.code == Errc::mismatch);
    CHECK(error.text.find("all_reduce #1 sum f32[10]") != std::string::npos);
    CHECK(error.text.find("all_reduce #1 sum f32[12]") != std::string::npos);
  }
}

TEST_CASE("shm: a rank that dies while it writes the reason does not hide it from the others") {
  std::vector<Error> errors(3);
  with_ranks(3, [&](Shm& shm, Segment& segment) {
    Request request{.seq = 1, .deadline = steady_now() + std::chrono::seconds(20)};
    errors[segment.self()] = error_of(shm.run(Step(request)));
    request.seq = 2;
    if (segment.self() == 1) {
      // As the kernel leaves it after a kill at this point.
      char* const base = segment.staging(0) - segment.plan().layout.staging_at(0);
      reinterpret_cast<SegmentHeader*>(base)->fault.store(kFaultWriting + 1);
      segment.me().life.fetch_or(kOwnerDied);
      while (!segment.failure()) {
        std::this_thread::yield();
      }
      return;
    }
    errors[segment.self()] = error_of(shm.run(Step(request)));
  });
  for (const std::size_t rank : {0UL, 2UL}) {
    CHECK(errors[rank].code == Errc::peer_failed);
    CHECK(errors[rank].rank == 1);
  }
}

TEST_CASE("shm: names a rank that has not arrived by the deadline") {
  std::vector<Error> errors(3);
  with_ranks(3, [&](Shm& shm, Segment& segment) {
    Request request{.seq = 1, .deadline = steady_now() + std::chrono::seconds(20)};
    errors[segment.self()] = error_of(shm.run(Step(request)));
    request.seq = 2;
    request.deadline = steady_now() + std::chrono::milliseconds(300);
    if (segment.self() != 1) {
      errors[segment.self()] = error_of(shm.run(Step(request)));
      return;
    }
    while (!segment.failure()) {  // by the other ranks
      std::this_thread::yield();
    }
    errors[1] = error_of(shm.run(Step(request)));
  });
  for (const Error& error : errors) {
    INFO(error.text);
    CHECK(error.code == Errc::timeout);
    CHECK(error.rank == 1);
    CHECK(error.text.find("rank 1 is missing; it last completed #1") != std::string::npos);
  }
}

TEST_CASE("shm: names a rank that has left at once") {
  std::vector<Error> errors(2);
  with_ranks(2, [&](Shm& shm, Segment& segment) {
    Request request{.seq = 1, .deadline = steady_now() + std::chrono::seconds(20)};
    if (segment.self() == 0) {
      errors[0] = error_of(shm.run(Step(request)));
    }
  });
  CHECK(errors[0].code == Errc::peer_failed);
  CHECK(errors[0].rank == 1);
}

TEST_CASE("shm: a wait succeeds if the rank did its part just before it died") {
  std::latch done(2);
  with_ranks(2, [&](Shm&, Segment& segment) {
    if (segment.self() == 0) {
      segment.member(1).life.fetch_or(kOwnerDied);
      const Step step{Request{.seq = 1, .deadline = steady_now() + std::chrono::seconds(20)}};
      // The rank is missing until the wait reports its death, and has done its part then.
      CHECK(segment.wait(step, [&] { return segment.failure() ? -1 : 1; }).has_value());
      CHECK(segment.failure());
    }
    done.arrive_and_wait();
  });
}

TEST_CASE("shm: a failure prevents a new operation, but no later step of a running one") {
  with_ranks(1, [&](Shm& shm, Segment& segment) {
    segment.report({.code = Errc::peer_failed, .rank = 0, .text = "rank 0 has died"});
    const Request whole{.seq = 1, .deadline = steady_now() + std::chrono::seconds(20)};
    Step step(whole);
    CHECK(error_of(shm.run(step)).code == Errc::peer_failed);
    step.whole = &whole;
    CHECK(error_of(shm.run(step)).text.empty());
  });
}

TEST_CASE("shm: a rank that has posted completes an operation that peers completed before dying") {
  for (const std::size_t count : {std::size_t{1}, std::size_t{1} << 20}) {
    std::latch ended(1);
    std::array<bool, 3> good{};
    with_ranks(2, [&](Shm& shm, Segment& segment) {
      std::vector<float> data(count, 1);
      Request request{.kind = Kind::all_reduce, .dtype = DType::f32, .count = count, .seq = 1};
      request.deadline = steady_now() + std::chrono::seconds(20);
      request.in = data.data();
      request.out = data.data();
      if (segment.self() == 0) {
        good[0] = shm.run(Step(request)).has_value();
        segment.report({.code = Errc::peer_failed, .rank = 0, .text = "rank 0 has died"});
        ended.count_down();
        return;
      }
      const bool come = shm.others_come(Step(request), request.deadline);
      if (count == 1) {
        ended.wait();  // a large sum needs both ranks until it completes
      }
      good[1] = come && shm.run(Step(request)).has_value() && data.back() == 2;
      ended.wait();
      request.seq = 2;
      good[2] = !shm.run(Step(request)).has_value();
    });
    CHECK(good == std::array{true, true, true});
  }
}

// The flight recorder uses this to decide whether to read the clock.
TEST_CASE("shm: prompt only for a small operation at which all others have arrived") {
  with_ranks(1, [&](Shm& shm, Segment&) {
    std::vector<float> data(300000, 1);
    Request request{.kind = Kind::all_reduce, .dtype = DType::f32, .count = 10};
    request.deadline = steady_now() + std::chrono::seconds(20);
    request.in = data.data();
    request.out = data.data();
    request.seq = 1;
    CHECK(shm.run(Step(request)).has_value());
    CHECK(shm.prompt());
    request.seq = 2;
    request.count = data.size();
    CHECK(shm.run(Step(request)).has_value());
    CHECK_FALSE(shm.prompt());
  });
}

TEST_CASE("arena: reuses freed memory, filled with zeros") {
  with_ranks(1, [&](Shm& shm, Segment&) {
    auto a = shm.alloc(5000);
    auto b = shm.alloc(1);
    REQUIRE(a.has_value());
    REQUIRE(b.has_value());
    CHECK(static_cast<char*>(*b) - static_cast<char*>(*a) == 8192);
    static_cast<char*>(*a)[4999] = 'x';
    CHECK(shm.free(*a).has_value());
    CHECK_FALSE(shm.free(*a).has_value());
    auto again = shm.alloc(8192);
    REQUIRE(again.has_value());
    CHECK(*again == *a);
    CHECK(static_cast<char*>(*again)[4999] == 0);
    const auto much = shm.alloc(65UL << 20);
    REQUIRE_FALSE(much.has_value());
    CHECK(much.error().code == Errc::unsupported);
  });
}

}  // namespace
}  // namespace muster::collective
