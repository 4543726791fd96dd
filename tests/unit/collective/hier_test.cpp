// SPDX-License-Identifier: Apache-2.0
// Hosts with several ranks: two-step sums have the same bits for every buffer split and every
// count, and are correct for every number of hosts, type and operation.
#include "unit/collective/run_operations.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace muster::collective {
namespace {

using testing::Bytes;
using testing::error_of;
using testing::floats;
using testing::Operation;
using testing::run_all;
using testing::World;

struct Shape {
  int hosts;
  int each;

  [[nodiscard]] World world() const {
    return {.ranks = hosts * each, .backend = Backend::hier, .per_host = each};
  }
};

Operation sum_of(const Shape& shape, DType dtype, std::size_t count, Op op = Op::sum) {
  Request request;
  request.kind = Kind::all_reduce;
  request.count = count;
  request.dtype = dtype;
  request.op = op;
  request.scale = 0.3;
  return {request, static_cast<std::size_t>(shape.hosts * shape.each), 7};
}

// The sum computed in pieces of `cut` elements, one call after the other; returns the first rank's
// result.
Bytes in_pieces(const Shape& shape, const Operation& operation, std::size_t cut) {
  const std::size_t width = operation.width();
  Bytes result;
  shape.world().run([&](Communicator& comm) {
    Bytes data = operation.inputs[static_cast<std::size_t>(comm.rank())];
    const std::size_t all = operation.request.count;
    for (std::size_t at = 0; at < all; at += cut) {
      const Buffer piece{
          data.data() + at * width, std::min(cut, all - at), operation.request.dtype};
      RANK_REQUIRE(
          comm.all_reduce(piece, piece, operation.request.op, {.scale = operation.request.scale})
              .has_value());
    }
    if (comm.rank() == 0) {
      result = data;
    }
  });
  return result;
}

// Combines the ranks of a host, then the hosts; f32 is rounded at each step.
Bytes ranks_then_hosts(const Shape& shape, const Operation& operation) {
  Bytes out(operation.inputs[0].size());
  for (std::size_t i = 0; i < operation.request.count; ++i) {
    float all = 0;
    for (int host = 0; host < shape.hosts; ++host) {
      float of_host = 0;
      for (int place = 0; place < shape.each; ++place) {
        const auto rank = static_cast<std::size_t>(host * shape.each + place);
        const float value = testing::get<float>(operation.inputs[rank], i);
        of_host = place == 0 ? value : of_host + value;
      }
      all = host == 0 ? of_host : all + of_host;
    }
    testing::put(out, i, all);
  }
  return out;
}

std::vector<Shape> shapes() {
  return {{2, 2}, {2, 3}, {3, 2}};
}

TEST_CASE("hier: an element has the same bits however the buffer is cut, for every count",
          "[slow]") {
  for (const Shape& shape : shapes()) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const Op op : {Op::sum, Op::avg, Op::premul_sum}) {
        const Operation operation = sum_of(shape, dtype, 41, op);
        const Bytes whole = in_pieces(shape, operation, 41);
        for (const std::size_t cut : {1UL, 3UL, 7UL, 40UL}) {
          INFO(shape.hosts << " hosts of " << shape.each << ", " << name_of(dtype) << " "
                           << name_of(op) << " in pieces of " << cut);
          CHECK((in_pieces(shape, operation, cut) == whole));
        }
      }
    }
  }
}

// In case the last elements take a different path from the preceding ones.
TEST_CASE("hier: the last elements of large buffers have the same bits as elsewhere", "[slow]") {
  for (const Shape& shape : shapes()) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      constexpr std::size_t kCount = 70000 * 6 + 5;
      const Operation operation = sum_of(shape, dtype, kCount);
      const Bytes whole = in_pieces(shape, operation, kCount);
      for (const std::size_t cut : {70001UL, 131071UL, kCount - 1, kCount - 3}) {
        INFO(shape.hosts << " hosts of " << shape.each << ", " << name_of(dtype) << " in pieces of "
                         << cut);
        CHECK((in_pieces(shape, operation, cut) == whole));
      }
    }
  }
}

TEST_CASE("hier: sums every element over the ranks of a host, then over the hosts") {
  for (const Shape& shape : shapes()) {
    for (const std::size_t count : {1UL, 2UL, 5UL, 1001UL, 70001UL, 70003UL}) {
      INFO(shape.hosts << " hosts of " << shape.each << ", " << count << " elements");
      const Operation operation = sum_of(shape, DType::f32, count);
      CHECK((in_pieces(shape, operation, count) == ranks_then_hosts(shape, operation)));
    }
  }
}

std::vector<Operation> every_operation(const Shape& shape, std::uint64_t seed) {
  std::vector<Operation> out;
  const auto ranks = static_cast<std::size_t>(shape.hosts * shape.each);
  const auto add = [&](Request request) {
    const bool in_place = out.size() % 2 == 1;
    out.emplace_back(request, ranks, seed + out.size(), in_place);
    out.back().hosts = request.kind == Kind::all_reduce ? shape.hosts : 0;
  };
  for (const DType dtype : testing::kHostTypes) {
    for (const std::size_t count : {1UL, 1003UL}) {
      for (const Op op : testing::kAllOps) {
        add({.kind = Kind::all_reduce, .op = op, .dtype = dtype, .count = count, .scale = 3});
      }
      for (const Kind kind : {Kind::reduce, Kind::reduce_scatter}) {
        const int root = kind == Kind::reduce ? static_cast<int>(ranks) - 1 : -1;
        add({.kind = kind, .op = Op::avg, .dtype = dtype, .count = count, .root = root});
      }
      for (const Kind kind : {Kind::broadcast, Kind::all_gather, Kind::all_to_all}) {
        const int root = kind == Kind::broadcast ? static_cast<int>(ranks) - 1 : -1;
        add({.kind = kind, .dtype = dtype, .count = count, .root = root});
      }
    }
  }
  return out;
}

TEST_CASE("hier: every operation and type on one to three hosts, half of them in place", "[slow]") {
  const muster::testing::Seed seed;
  INFO(seed.describe());
  for (const Shape& shape : {Shape{1, 2}, Shape{2, 2}, Shape{2, 3}, Shape{3, 2}}) {
    INFO(shape.hosts << " hosts of " << shape.each);
    const auto operations = every_operation(shape, seed.value());
    CHECK(run_all(shape.world(), operations, shape.each == 3) == std::vector<std::string>{});
  }
}

constexpr Shape kTwoByTwo{2, 2};

TEST_CASE("hier: sends and receives within a host and between hosts, also in both directions") {
  kTwoByTwo.world().run([](Communicator& comm) {
    for (const int step : {1, 2, 3}) {  // 1 and 3: to this host and to the other; 2: across
      const int to = (comm.rank() + step) % 4;
      const int from = (comm.rank() + 4 - step) % 4;
      for (const std::size_t count : {0UL, 1UL, 100UL, 500000UL}) {
        std::vector<float> out(count, static_cast<float>(comm.rank() * 10 + step));
        std::vector<float> in(count, -1);
        const auto sent = comm.send(floats(out), to, {.async = true});
        RANK_CHECK(error_of(comm.recv(floats(in), from)).text == "");
        RANK_CHECK(error_of(sent).text == "");
        RANK_CHECK(in == std::vector<float>(count, static_cast<float>(from * 10 + step)));
      }
    }
  });
}

void check_sum(Communicator& comm, float want) {
  std::vector<float> data(1003, static_cast<float>(comm.rank() + 1));
  RANK_CHECK(error_of(comm.all_reduce(floats(data), floats(data), Op::sum)).text == "");
  RANK_CHECK(data == std::vector<float>(1003, want));
}

TEST_CASE("hier: subsets of ranks: on one host, across hosts, on hosts of different sizes") {
  kTwoByTwo.world().run([](Communicator& comm) {
    const int rank = comm.rank();
    auto host = comm.split(rank / 2, rank);
    auto across = comm.split(rank % 2, rank);
    auto turned = comm.split(0, -rank);
    auto three = comm.split(rank == 3 ? -1 : 0, rank);
    RANK_REQUIRE(host && across && turned && three && *host && *across && *turned);
    RANK_CHECK((*host)->backend() == Backend::hier);  // it was requested
    check_sum(**host, 3);
    check_sum(**across, 3);
    RANK_CHECK((*turned)->rank() == 3 - rank);
    check_sum(**turned, 10);
    RANK_CHECK(three->has_value() == (rank != 3));
    if (*three) {
      check_sum(**three, 6);
    }
    check_sum(comm, 10);
  });
}

TEST_CASE("hier: after a failure fewer ranks start again, on hosts of different sizes") {
  kTwoByTwo.world().run([](Communicator& comm) {
    check_sum(comm, 10);
    if (comm.rank() == 1) {
      comm.abort("it goes");
      return;
    }
    while (!comm.error()) {
      RANK_CHECK(error_of(comm.barrier()).code == Errc::aborted);
    }
    Membership next;
    next.rank = std::max(comm.rank() - 1, 0);
    next.size = 3;
    next.epoch = 1;
    auto again = comm.rebuild(next);
    RANK_REQUIRE(again.has_value());
    RANK_CHECK(again->size() == 3);
    check_sum(*again, 6);
  });
}

}  // namespace
}  // namespace muster::collective
