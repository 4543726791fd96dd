// SPDX-License-Identifier: Apache-2.0
// The collective operations over lanes that are not sockets: ring buffers in memory, between
// threads. MemoryLanes provides exactly what any other network must provide.
#include "base/clock.hpp"
#include "collective/lanes/lane_collectives.hpp"
#include "support/catch.hpp"
#include "unit/collective/operations.hpp"

#include <algorithm>
#include <deque>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <sched.h>

namespace muster::collective {
namespace {

using testing::Bytes;
using testing::Operation;

// Small compared with the operations, so that bytes move in parts and senders block.
constexpr std::size_t kCapacity = 10'007;

// Rings between all pairs of ranks, and the reason if the network is dead.
struct Network {
  explicit Network(std::size_t n) : ranks(n), on_the_way(n * n) {}

  std::size_t ranks;
  std::mutex mutex;
  std::vector<std::string> on_the_way;  // index: from rank × ranks + to rank
  std::optional<Error> fault;
};

class MemoryLanes : public Lanes {
 public:
  MemoryLanes(Network& network, int rank)
      : network_(network), rank_(rank), out_(network.ranks), in_(network.ranks) {}

  [[nodiscard]] int rank() const override { return rank_; }

  [[nodiscard]] int size() const override { return static_cast<int>(network_.ranks); }

  std::uint64_t post_send(int rank, const void* data, std::size_t bytes) override {
    return out_[at(rank)].post(const_cast<void*>(data), bytes);
  }

  std::uint64_t post_recv(int rank, void* data, std::size_t bytes) override {
    return in_[at(rank)].post(data, bytes);
  }

  [[nodiscard]] std::uint64_t sent(int rank) const override { return out_[at(rank)].moved; }

  [[nodiscard]] std::uint64_t received(int rank) const override { return in_[at(rank)].moved; }

  [[nodiscard]] Result<bool> progress(const Step& /*step*/) override {
    const std::scoped_lock lock(network_.mutex);
    bool moved = false;
    for (std::size_t other = 0; other < network_.ranks; ++other) {
      moved = send_to(other) || moved;
      moved = receive_from(other) || moved;
    }
    return moved;
  }

  [[nodiscard]] std::optional<Error> wait(const Step& step, int missing, int /*round*/) override {
    if (auto error = failure()) {
      return error;
    }
    if (steady_now() >= step.deadline) {
      return Error{.code = Errc::timeout, .rank = missing};
    }
    ::sched_yield();
    return std::nullopt;
  }

  void seen(int /*rank*/, const Request& /*operation*/) override {}

  [[nodiscard]] std::optional<Error> failure() const override {
    const std::scoped_lock lock(network_.mutex);
    return network_.fault;
  }

  void report(const Error& error) override {
    const std::scoped_lock lock(network_.mutex);
    network_.fault = network_.fault ? network_.fault : error;
  }

 private:
  struct Direction {
    std::deque<std::pair<char*, std::size_t>> pieces;
    std::uint64_t posted = 0;
    std::uint64_t moved = 0;

    std::uint64_t post(void* data, std::size_t bytes) {
      pieces.emplace_back(static_cast<char*>(data), bytes);
      return posted += bytes;
    }

    // Removes bytes from the first piece.
    void take(std::size_t bytes) {
      moved += bytes;
      pieces.front().first += bytes;
      pieces.front().second -= bytes;
      if (pieces.front().second == 0) {
        pieces.pop_front();
      }
    }
  };

  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

 protected:
  Network& network_;

 private:
  bool send_to(std::size_t other) {
    Direction& way = out_[other];
    std::string& wire = network_.on_the_way[at(rank_) * network_.ranks + other];
    if (way.pieces.empty() || wire.size() >= kCapacity) {
      return false;
    }
    const auto [data, bytes] = way.pieces.front();
    const std::size_t part = std::min(bytes, kCapacity - wire.size());
    wire.append(data, part);
    way.take(part);
    return true;
  }

  bool receive_from(std::size_t other) {
    Direction& way = in_[other];
    std::string& wire = network_.on_the_way[other * network_.ranks + at(rank_)];
    if (way.pieces.empty() || wire.empty()) {
      return false;
    }
    const auto [data, bytes] = way.pieces.front();
    const std::size_t part = std::min(bytes, wire.size());
    std::copy_n(wire.begin(), part, data);
    wire.erase(0, part);
    way.take(part);
    return true;
  }

  int rank_;
  std::vector<Direction> out_;
  std::vector<Direction> in_;
};

// The peer sends its last bytes and dies between two polls of this rank.
class LastBytes final : public MemoryLanes {
 public:
  LastBytes(Network& network, std::size_t bytes) : MemoryLanes(network, 0), bytes_(bytes) {}

  [[nodiscard]] std::optional<Error> wait(const Step&, int missing, int /*round*/) override {
    wire_from_peer().append(bytes_, 'x');
    report({.code = Errc::peer_failed, .rank = missing});
    return failure();
  }

 private:
  std::string& wire_from_peer() { return network_.on_the_way[network_.ranks]; }

  std::size_t bytes_;
};

struct Ran {
  std::vector<Bytes> outputs;
  std::vector<Error> errors;
};

// `operations[rank]` is the operation that the rank calls.
Ran run(const std::vector<Operation>& operations) {
  const std::size_t ranks = operations.size();
  Network network(ranks);
  Ran ran{std::vector<Bytes>(ranks), std::vector<Error>(ranks)};
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const Operation& mine = operations[rank];
      MemoryLanes lanes(network, static_cast<int>(rank));
      std::vector<int> all(ranks);
      std::iota(all.begin(), all.end(), 0);
      LaneCollectives collectives(lanes, all);
      Bytes memory(mine.room() + 1);
      mine.fill(memory.data(), rank);
      Step step(mine.request);
      step.in = memory.data() + mine.in_at(rank);
      step.out = memory.data() + mine.out_at(rank);
      step.seq = 1;
      step.deadline = steady_now() + std::chrono::seconds(30);
      if (const auto done = collectives.run(step); !done) {
        ran.errors[rank] = done.error();
      }
      ran.outputs[rank] = mine.output(memory.data(), rank);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return ran;
}

Request request_of(Kind kind, std::size_t count) {
  Request request;
  request.kind = kind;
  request.count = count;
  request.dtype = DType::f32;
  request.op = Op::avg;
  request.root = kind == Kind::reduce || kind == Kind::broadcast ? 1 : -1;
  return request;
}

TEST_CASE("lanes: every operation runs over lanes that are not sockets") {
  const Kind kind = GENERATE(Kind::barrier,
                             Kind::all_reduce,
                             Kind::reduce,
                             Kind::broadcast,
                             Kind::all_gather,
                             Kind::reduce_scatter,
                             Kind::all_to_all);
  for (const std::size_t count : {0UL, 1UL, 1001UL, 300'001UL}) {
    INFO(name_of(kind) << " of " << count);
    const Operation operation(request_of(kind, count), 3, 11);
    const Ran ran = run(std::vector<Operation>(3, operation));
    for (const Error& error : ran.errors) {
      CHECK(error.text.empty());
    }
    CHECK(operation.check(ran.outputs).empty());
  }
}

TEST_CASE("lanes: every rank gets the error if ranks call different operations") {
  const Operation sum(request_of(Kind::all_reduce, 1001), 2, 11);
  const Operation gather(request_of(Kind::all_gather, 1001), 2, 11);
  const Ran ran = run({sum, gather});
  CHECK(ran.errors[0].code == Errc::mismatch);
  CHECK(ran.errors[1].code == Errc::mismatch);
}

TEST_CASE("lanes: a step of an operation sums its own count and divides by the given number") {
  Network network(2);
  Request whole = request_of(Kind::all_reduce, 40);
  whole.seq = 7;
  std::vector<std::vector<float>> data{std::vector<float>(10, 1), std::vector<float>(10, 2)};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      MemoryLanes lanes(network, rank);
      LaneCollectives collectives(lanes, {0, 1});
      Step step(whole);
      step.whole = &whole;
      step.count = 10;
      step.average_over = 6;
      step.in = data[static_cast<std::size_t>(rank)].data();
      step.out = data[static_cast<std::size_t>(rank)].data();
      step.deadline = steady_now() + std::chrono::seconds(30);
      static_cast<void>(collectives.run(step));
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(data[0] == std::vector<float>(10, 0.5F));
  CHECK(data[1] == data[0]);
}

TEST_CASE("lanes: bytes that arrived before the peer died complete the operation") {
  const auto received = [](std::size_t bytes_on_the_way) {
    Network network(2);
    LastBytes lanes(network, bytes_on_the_way);
    Streams streams(lanes, {0, 1});
    std::string first(100, ' ');
    std::string second(100, ' ');
    // Each progress() call fills one of them.
    streams.receive(1, first.data(), first.size());
    streams.receive(1, second.data(), second.size());
    const auto drained = streams.drain(Step{Request{}});
    return std::pair{drained ? Errc::ok : drained.error().code, first + second};
  };
  CHECK(received(200) == std::pair{Errc::ok, std::string(200, 'x')});
  CHECK(received(199).first == Errc::peer_failed);
}

TEST_CASE("lanes: a failure prevents a new operation, but no later step of a running one") {
  Network network(1);
  MemoryLanes lanes(network, 0);
  LaneCollectives collectives(lanes, {0});
  lanes.report({.code = Errc::peer_failed, .rank = 0});
  const Request whole = request_of(Kind::barrier, 0);
  Step step(whole);
  CHECK_FALSE(collectives.run(step).has_value());
  step.whole = &whole;
  CHECK(collectives.run(step).has_value());
}

}  // namespace
}  // namespace muster::collective
