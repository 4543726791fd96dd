// SPDX-License-Identifier: Apache-2.0
// Ranks that disagree about the operation: every rank's error names both sides, for every kind of
// difference, every size and every backend.
#include "collective/communicator.hpp"
#include "unit/collective/world.hpp"

#include <functional>
#include <string>
#include <vector>

namespace muster::collective {
namespace {

using testing::error_of;
using testing::World;

constexpr std::size_t kSmall = 10;
constexpr std::size_t kLarge = 300000;

using Called = std::function<Result<Work>(Communicator&, void*, std::size_t)>;

// What most ranks call, what the differing ranks call, and how an error names both.
struct Difference {
  const char* what;
  Called most;
  Called odd;
  std::string most_text;
  std::string odd_text;
};

Called sum(Op op, DType dtype = DType::f32, std::size_t more = 0) {
  return [=](Communicator& comm, void* data, std::size_t count) {
    const Buffer all{data, count + more, dtype};
    return comm.all_reduce(all, all, op);
  };
}

Called cast(int root) {
  return [=](Communicator& comm, void* data, std::size_t count) {
    return comm.broadcast({data, count, DType::f32}, root);
  };
}

Called reduction(int root) {
  return [=](Communicator& comm, void* data, std::size_t count) {
    const Buffer all{data, count, DType::f32};
    return comm.reduce(all, all, Op::sum, root);
  };
}

// A block of `each` elements per rank, out of the `count` elements for all ranks.
Called gather(std::size_t less = 0, DType dtype = DType::f32) {
  return [=](Communicator& comm, void* data, std::size_t count) {
    const auto ranks = static_cast<std::size_t>(comm.size());
    const std::size_t each = count / ranks - less;
    std::vector<char> mine(each * size_of(dtype));
    return comm.all_gather(ConstBuffer{mine.data(), each, dtype},
                           Buffer{data, each * ranks, dtype});
  };
}

Called scatter_sum(Op op, std::size_t less = 0) {
  return [=](Communicator& comm, void* data, std::size_t count) {
    const auto ranks = static_cast<std::size_t>(comm.size());
    const std::size_t each = count / ranks - less;
    std::vector<float> mine(each);
    return comm.reduce_scatter(
        ConstBuffer{data, each * ranks, DType::f32}, Buffer{mine.data(), each, DType::f32}, op);
  };
}

Called exchange(std::size_t less = 0, DType dtype = DType::f32) {
  return [=](Communicator& comm, void* data, std::size_t count) {
    const auto ranks = static_cast<std::size_t>(comm.size());
    const std::size_t all = (count / ranks - less) * ranks;
    std::vector<char> out(all * size_of(dtype));
    return comm.all_to_all(ConstBuffer{data, all, dtype}, Buffer{out.data(), all, dtype});
  };
}

Called scaled(double scale) {
  return [=](Communicator& comm, void* data, std::size_t count) {
    const Buffer all{data, count, DType::f32};
    return comm.all_reduce(all, all, Op::premul_sum, {.scale = scale});
  };
}

Result<Work> meet(Communicator& comm, void*, std::size_t) {
  const auto met = comm.barrier();
  return met ? Result<Work>(Work()) : std::unexpected(met.error());
}

// Both calls, in a different order.
Called one_then_other(const Called& one, const Called& other) {
  return [=](Communicator& comm, void* data, std::size_t count) {
    const auto first = one(comm, data, count);
    const Error error = error_of(first);
    return error.code == Errc::ok ? other(comm, data, count) : Result<Work>(std::unexpected(error));
  };
}

std::vector<Difference> differences() {
  return {{"count", sum(Op::sum), sum(Op::sum, DType::f32, 1), "f32[{}]", "f32[{+1}]"},
          {"type", sum(Op::sum), sum(Op::sum, DType::i32), "sum f32[", "sum i32["},
          {"op", sum(Op::sum), sum(Op::max), "all_reduce #1 sum", "all_reduce #1 max"},
          {"root", cast(0), cast(1), "broadcast #1 f32[{}] root 0", "broadcast #1 f32[{}] root 1"},
          {"root of a reduce",
           reduction(0),
           reduction(1),
           "reduce #1 sum f32[{}] root 0",
           "reduce #1 sum f32[{}] root 1"},
          {"count of a gather", gather(), gather(1), "all_gather #1 f32[", "all_gather #1 f32["},
          {"type of a gather",
           gather(),
           gather(0, DType::i32),
           "all_gather #1 f32[",
           "all_gather #1 i32["},
          {"count of a reduce_scatter",
           scatter_sum(Op::sum),
           scatter_sum(Op::sum, 1),
           "reduce_scatter #1 sum f32[",
           "reduce_scatter #1 sum f32["},
          {"op of a reduce_scatter",
           scatter_sum(Op::sum),
           scatter_sum(Op::max),
           "reduce_scatter #1 sum",
           "reduce_scatter #1 max"},
          {"count of an all_to_all",
           exchange(),
           exchange(1),
           "all_to_all #1 f32[",
           "all_to_all #1 f32["},
          {"type of an all_to_all",
           exchange(),
           exchange(0, DType::i32),
           "all_to_all #1 f32[",
           "all_to_all #1 i32["},
          {"scale", scaled(2), scaled(3), "all_reduce #1 premul_sum", "all_reduce #1 premul_sum"},
          {"kind", cast(0), meet, "broadcast #1", "barrier #1"},
          {"kind, one a sum", sum(Op::sum), cast(1), "all_reduce #1 sum", "broadcast #1"},
          {"order",
           one_then_other(sum(Op::sum), cast(0)),
           one_then_other(cast(0), sum(Op::sum)),
           "all_reduce #1 sum",
           "broadcast #1"}};
}

std::string with_count(std::string text, std::size_t count) {
  for (const auto& [mark, value] : {std::pair("{}", count), std::pair("{+1}", count + 1)}) {
    if (const auto at = text.find(mark); at != std::string::npos) {
      text.replace(at, std::string(mark).size(), std::to_string(value));
    }
  }
  return text;
}

// Without the rank, communicator and epoch at the beginning of an error.
std::string without_speaker(const Error& error) {
  const auto at = error.text.find("the ranks disagree");
  return at == std::string::npos ? error.text : error.text.substr(at);
}

void check_all_told(const World& world,
                    const Difference& difference,
                    std::size_t count,
                    const std::vector<int>& odd) {
  std::vector<Error> errors(static_cast<std::size_t>(world.ranks));
  world.run([&](Communicator& comm) {
    std::vector<char> memory((count + 1) * sizeof(float));
    const bool is_odd = std::ranges::find(odd, comm.rank()) != odd.end();
    const Called& call = is_odd ? difference.odd : difference.most;
    Error& error = errors[static_cast<std::size_t>(comm.rank())];
    error = error_of(call(comm, memory.data(), count));
    if (error.code == Errc::ok) {
      error = error_of(comm.barrier());  // it had its result before others noticed the difference
    }
  });
  for (const Error& error : errors) {
    INFO(error.text);
    CHECK(error.code == Errc::mismatch);
    CHECK(error.text.find(with_count(difference.most_text, count)) != std::string::npos);
    CHECK(error.text.find(with_count(difference.odd_text, count)) != std::string::npos);
    if (world.backend == Backend::tcp) {
      CHECK(error.rank == errors[0].rank);
      CHECK(without_speaker(error) == without_speaker(errors[0]));
    }
  }
}

TEST_CASE("disagreement: every rank's error names both sides", "[slow]") {
  struct Case {
    World world;
    std::vector<int> odd;
  };

  const std::vector<Case> cases{
      {{.ranks = 2, .backend = Backend::shm}, {1}},
      {{.ranks = 4, .backend = Backend::shm}, {2}},
      {{.ranks = 2, .backend = Backend::tcp}, {1}},
      {{.ranks = 4, .backend = Backend::tcp}, {0}},
      {{.ranks = 4, .backend = Backend::hier, .per_host = 2}, {1}},
      {{.ranks = 4, .backend = Backend::hier, .per_host = 2}, {2, 3}},
      {{.ranks = 4, .backend = Backend::hier, .per_host = 2}, {0, 2}},
      {{.ranks = 5, .per_host = 2}, {4}},
  };
  for (const Case& each : cases) {
    for (const Difference& difference : differences()) {
      for (const std::size_t count : {kSmall, kLarge}) {
        INFO(each.world.ranks << " ranks, " << name_of(each.world.backend) << ", per host "
                              << each.world.per_host << ", rank " << each.odd.front()
                              << " has another " << difference.what << ", " << count);
        World world = each.world;
        world.store = std::make_shared<muster::testing::LocalStore>();
        world.timeout = std::chrono::seconds(30);
        check_all_told(world, difference, count, each.odd);
      }
    }
  }
}

}  // namespace
}  // namespace muster::collective
