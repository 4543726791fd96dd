// SPDX-License-Identifier: Apache-2.0
#include "collective/communicator.hpp"

#include "support/catch.hpp"
#include "unit/collective/run_operations.hpp"

#include <latch>
#include <mutex>
#include <numeric>
#include <optional>

#include <sys/wait.h>
#include <unistd.h>

namespace muster::collective {
namespace {

using testing::Bytes;
using testing::call;
using testing::error_of;
using testing::floats;
using testing::Operation;
using testing::run_all;
using testing::some_operations;
using testing::World;

TEST_CASE("communicator: every operation, one by one and all at once") {
  const muster::testing::Seed seed;
  INFO(seed.describe());
  for (const int ranks : {1, 2, 4}) {
    const auto operations = some_operations(static_cast<std::size_t>(ranks), seed.value());
    INFO(ranks << " ranks");
    CHECK(run_all({.ranks = ranks}, operations, false) == std::vector<std::string>{});
    CHECK(run_all({.ranks = ranks}, operations, true) == std::vector<std::string>{});
  }
}

TEST_CASE("communicator: every operation over TCP and between simulated hosts", "[slow]") {
  const muster::testing::Seed seed;
  INFO(seed.describe());
  const std::vector<World> worlds{{.ranks = 2, .backend = Backend::tcp},
                                  {.ranks = 3, .backend = Backend::tcp, .per_host = 1},
                                  {.ranks = 4, .backend = Backend::hier, .per_host = 2},
                                  {.ranks = 5, .per_host = 2}};
  for (const World& world : worlds) {
    INFO(world.ranks << " ranks, backend " << name_of(world.backend));
    auto operations = some_operations(static_cast<std::size_t>(world.ranks), seed.value());
    for (const Op op : testing::kAllOps) {
      for (const DType dtype : testing::kHostTypes) {
        Request request;
        request.kind = Kind::all_reduce;
        request.count = 1003;
        request.dtype = dtype;
        request.op = op;
        request.scale = 3;
        operations.emplace_back(request, static_cast<std::size_t>(world.ranks), seed.value());
        operations.back().hosts = world.backend == Backend::hier ? world.ranks / world.per_host : 0;
      }
    }
    CHECK(run_all(world, operations, false) == std::vector<std::string>{});
    CHECK(run_all(world, operations, true) == std::vector<std::string>{});
  }
}

TEST_CASE("communicator: two hosts of two ranks, every operation and type, large ones and in place",
          "[slow]") {
  const muster::testing::Seed seed;
  INFO(seed.describe());
  std::vector<Operation> operations;
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::i32}) {
    for (const Operation& like : some_operations(4, seed.value())) {
      for (const bool in_place : {false, true}) {
        Request request = like.request;
        request.dtype = dtype;
        request.root = request.root < 0 ? -1 : 3;
        operations.emplace_back(request, 4, seed.value() + operations.size(), in_place);
        operations.back().hosts = request.kind == Kind::all_reduce ? 2 : 0;
      }
    }
  }
  const World world{.ranks = 4, .backend = Backend::hier, .per_host = 2};
  CHECK(run_all(world, operations, false) == std::vector<std::string>{});
  CHECK(run_all(world, operations, true) == std::vector<std::string>{});
}

TEST_CASE("communicator: sums over TCP have the same bits as in shared memory, for every size") {
  std::vector<Operation> operations;
  for (const std::size_t count : {5UL, 5000UL, 700001UL}) {
    Request request;
    request.kind = Kind::all_reduce;
    request.count = count;
    request.dtype = DType::f32;
    operations.emplace_back(request, 3, 11);
  }
  std::vector<std::vector<Bytes>> results;
  for (const Backend backend : {Backend::shm, Backend::tcp}) {
    std::vector<Bytes> outputs(operations.size());
    World{.ranks = 3, .backend = backend}.run([&](Communicator& comm) {
      for (std::size_t k = 0; k < operations.size(); ++k) {
        Bytes memory(operations[k].room());
        operations[k].fill(memory.data(), static_cast<std::size_t>(comm.rank()));
        RANK_REQUIRE(call(comm, operations[k], memory.data(), false).has_value());
        if (comm.rank() == 1) {
          outputs[k] = operations[k].output(memory.data(), 1);
        }
      }
    });
    results.push_back(outputs);
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE(
    "communicator: operations have the same numbers on all ranks, even if mixed with async ones") {
  World{.ranks = 2}.run([](Communicator& comm) {
    std::vector<float> a(10, 1);
    std::vector<float> b(10, 2);
    const bool odd = comm.rank() == 1;
    const auto first = comm.all_reduce(floats(a), floats(a), Op::sum, {.async = odd});
    const auto second = comm.all_reduce(floats(b), floats(b), Op::sum, {.async = !odd});
    RANK_REQUIRE(first.has_value());
    RANK_REQUIRE(second.has_value());
    RANK_CHECK(first->seq() == 1);
    RANK_CHECK(second->seq() == 2);
    RANK_CHECK(first->wait().has_value());
    RANK_CHECK(second->wait().has_value());
    RANK_CHECK(a[9] == 2);
    RANK_CHECK(b[9] == 4);
  });
}

TEST_CASE("communicator: two in one process at the same time") {
  World{.ranks = 2, .per_host = GENERATE(0, 1)}.run([](Communicator& comm) {
    auto other = comm.split(0, 0);
    RANK_REQUIRE(other.has_value() && other->has_value());
    std::vector<float> a(100, 1);
    std::vector<float> b(100, 2);
    // In a different order on each rank, but the ranks do not wait for each other.
    Communicator& first = comm.rank() == 0 ? comm : **other;
    Communicator& second = comm.rank() == 0 ? **other : comm;
    auto& x = comm.rank() == 0 ? a : b;
    auto& y = comm.rank() == 0 ? b : a;
    const auto one = first.all_reduce(floats(x), floats(x), Op::sum, {.async = true});
    const auto two = second.all_reduce(floats(y), floats(y), Op::sum, {.async = true});
    RANK_CHECK(one && two && one->wait() && two->wait());
    RANK_CHECK(a[99] == 2 && b[99] == 4);
  });
}

TEST_CASE("communicator: rejects buffers that do not match, and sends nothing") {
  World{.ranks = 2}.run([](Communicator& comm) {
    std::vector<float> a(10, 1);
    std::vector<float> b(12);
    const auto code = [](const Result<Work>& work) { return error_of(work).code; };
    RANK_CHECK(code(comm.all_reduce(floats(a), floats(b), Op::sum)) == Errc::invalid_argument);
    RANK_CHECK(code(comm.all_gather(floats(a), floats(b))) == Errc::invalid_argument);
    RANK_CHECK(
        code(comm.all_reduce({a.data(), 10, DType::f32}, {b.data(), 10, DType::i32}, Op::sum)) ==
        Errc::invalid_argument);
    RANK_CHECK(code(comm.all_reduce({nullptr, 1, DType::f32}, {nullptr, 1, DType::f32}, Op::sum)) ==
               Errc::invalid_argument);
    RANK_CHECK(
        code(comm.all_reduce({a.data(), 5, DType::f32}, {a.data() + 2, 5, DType::f32}, Op::sum)) ==
        Errc::invalid_argument);
    RANK_CHECK(code(comm.broadcast(floats(a), 2)) == Errc::invalid_argument);
    RANK_CHECK(code(comm.send(floats(a), comm.rank())) == Errc::invalid_argument);
    RANK_CHECK(code(comm.broadcast({a.data(), 4, DType::f8e4m3}, 0)) == Errc::unsupported);
    RANK_CHECK(code(comm.broadcast({a.data(), 4, static_cast<DType>(99)}, 0)) ==
               Errc::invalid_argument);
    RANK_CHECK(!comm.error().has_value());
    RANK_CHECK(comm.barrier().has_value());
  });
}

TEST_CASE("communicator: sends and receives of all sizes, in both directions at once") {
  const auto backend = GENERATE(Backend::shm, Backend::tcp);
  World{.ranks = 3, .backend = backend}.run([](Communicator& comm) {
    const int next = (comm.rank() + 1) % 3;
    const int before = (comm.rank() + 2) % 3;
    for (const std::size_t count : {0UL, 1UL, 100UL, 500000UL}) {
      std::vector<float> out(count, static_cast<float>(comm.rank()));
      std::vector<float> in(count, -1);
      const auto sent = comm.send(floats(out), next, {.async = true});
      const auto got = comm.recv(floats(in), before);
      RANK_REQUIRE(sent.has_value());
      RANK_CHECK(error_of(got).text == "");
      RANK_CHECK(sent->wait().has_value());
      RANK_CHECK(in == std::vector<float>(count, static_cast<float>(before)));
    }
  });
}

TEST_CASE("communicator: messages between two ranks keep their order, even around a collective") {
  const auto backend = GENERATE(Backend::shm, Backend::tcp);
  World{.ranks = 2, .backend = backend}.run([](Communicator& comm) {
    std::vector<std::vector<float>> data(20, std::vector<float>(30000));
    std::vector<Work> works;
    for (std::size_t i = 0; i < data.size(); ++i) {
      if (comm.rank() == 0) {
        std::fill(data[i].begin(), data[i].end(), static_cast<float>(i));
      }
      auto work = comm.rank() == 0 ? comm.send(floats(data[i]), 1, {.async = true})
                                   : comm.recv(floats(data[i]), 0, {.async = true});
      RANK_REQUIRE(work.has_value());
      RANK_CHECK(work->seq() == i + 1);
      works.push_back(*work);
    }
    RANK_CHECK(comm.barrier().has_value());
    for (std::size_t i = 0; i < data.size(); ++i) {
      RANK_CHECK(works[i].wait().has_value());
      RANK_CHECK(data[i].back() == static_cast<float>(i));
    }
  });
}

TEST_CASE("communicator: a message of an unexpected size or type is a mismatch") {
  const auto backend = GENERATE(Backend::shm, Backend::tcp);
  World{.ranks = 2, .backend = backend}.run([](Communicator& comm) {
    std::vector<float> data(10);
    if (comm.rank() == 0) {
      RANK_CHECK(error_of(comm.send(floats(data), 1)).text == "");
      while (!comm.error()) {
        std::this_thread::yield();
      }
    } else {
      const Error error = error_of(comm.recv({data.data(), 9, DType::f32}, 0));
      RANK_CHECK(error.code == Errc::mismatch);
      RANK_CHECK(error.text.find("sent f32[10]") != std::string::npos);
      RANK_CHECK(error.text.find("recv #1 f32[9]") != std::string::npos);
    }
  });
}

TEST_CASE("communicator: after an abort every operation on every rank fails with the reason") {
  const int per_host = GENERATE(0, 1, 2);
  // An abort ends operations in progress, including a barrier that has already completed on the
  // aborting rank.
  std::latch started(2);
  World{.ranks = 3, .per_host = per_host}.run([&started](Communicator& comm) {
    std::vector<float> data(10);
    if (comm.rank() == 2) {
      RANK_CHECK(comm.barrier().has_value());
      started.wait();
      comm.abort("the model has NaN");
    } else {
      RANK_CHECK(comm.barrier().has_value());
      started.count_down();
      const auto waiting = comm.recv(floats(data), 2, {.async = true});
      const Error error = error_of(comm.all_reduce(floats(data), floats(data), Op::sum));
      RANK_CHECK(error.code == Errc::aborted);
      RANK_CHECK(error.rank == 2);
      RANK_CHECK(error.text == "rank 2 aborted: the model has NaN");
      RANK_CHECK(error_of(waiting).code == Errc::aborted);
    }
    RANK_CHECK(error_of(comm.barrier()).code == Errc::aborted);
    RANK_CHECK(comm.error().has_value());
  });
}

TEST_CASE("communicator: concurrent calls from two threads abort it on all ranks, with the rule",
          "[not_tsan]") {
  const int per_host = GENERATE(0, 1);
  World{.ranks = 2, .per_host = per_host}.run([](Communicator& comm) {
    RANK_CHECK(comm.barrier().has_value());  // both ranks have created it
    if (comm.rank() == 1) {  // rank 0 waits for this rank in its first call, whichever that is
      while (!comm.error()) {
        std::this_thread::yield();
      }
    } else {
      std::vector<Error> errors(2);
      std::thread other([&] { errors[0] = error_of(comm.barrier()); });
      std::vector<float> data(10);
      errors[1] = error_of(comm.all_reduce(floats(data), floats(data), Op::sum));
      other.join();
      RANK_CHECK(errors[0].text == errors[1].text);
    }
    const Error error = error_of(comm.barrier());
    RANK_CHECK(error.code == Errc::aborted);
    RANK_CHECK(error.rank == 0);
    RANK_CHECK(
        error.text.starts_with("rank 0 aborted: two threads called the communicator 'world' "
                               "at the same time: "));
    RANK_CHECK(error.text.contains("Only one thread at a time may use a communicator"));
  });
}

TEST_CASE("communicator: a forked child that waits for a pending operation gets an error") {
  World{.ranks = 2}.run([](Communicator& comm) {
    std::vector<float> data(10, 1);
    const bool transfers = comm.rank() == 0;
    auto work = transfers ? comm.recv(floats(data), 1, {.async = true}) : Result<Work>(Work());
    RANK_REQUIRE(work.has_value());
    if (transfers) {
      const pid_t child = ::fork();
      if (child == 0) {
        ::alarm(30);
        const bool refused = work->done() && error_of(*work).code == Errc::invalid_state &&
                             error_of(work->wait_stream(nullptr)).code == Errc::invalid_state;
        ::_exit(refused ? 42 : 1);
      }
      int status = 0;
      RANK_CHECK(::waitpid(child, &status, 0) == child);
      RANK_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
      RANK_CHECK(!work->done());
    }
    RANK_CHECK(comm.barrier().has_value());
    RANK_CHECK(transfers || comm.send(floats(data), 0).has_value());
    RANK_CHECK(work->wait().has_value());
  });
}

TEST_CASE("communicator: a wait with its own timeout does not cancel the operation") {
  World{.ranks = 2}.run([](Communicator& comm) {
    std::vector<float> data(10, 1);
    if (comm.rank() == 1) {
      RANK_CHECK(comm.barrier().has_value());
      RANK_CHECK(comm.send(floats(data), 0).has_value());
      return;
    }
    const auto early = comm.recv(floats(data), 1, {.async = true});
    RANK_REQUIRE(early.has_value());
    RANK_CHECK(error_of(early->wait(std::chrono::milliseconds(1))).code == Errc::timeout);
    RANK_CHECK(!early->done());
    RANK_CHECK(comm.barrier().has_value());
    RANK_CHECK(early->wait().has_value());
    RANK_CHECK(early->done());
  });
}

TEST_CASE("communicator: an operation without a waiter still has its deadline") {
  const int per_host = GENERATE(0, 1);
  const bool transfer = GENERATE(false, true);
  World{.ranks = 2, .per_host = per_host}.run([=](Communicator& comm) {
    std::vector<float> data(10, 1);
    if (comm.rank() == 1) {
      while (!comm.error()) {
        std::this_thread::yield();
      }
      return;
    }
    const OpOptions soon{.timeout = std::chrono::milliseconds(20), .async = true};
    const auto work = transfer ? comm.recv(floats(data), 1, soon)
                               : comm.all_reduce(floats(data), floats(data), Op::sum, soon);
    RANK_REQUIRE(work.has_value());
    while (!work->done()) {
      std::this_thread::yield();
    }
    const Error error = error_of(*work);
    RANK_CHECK(error.code == Errc::timeout);
    RANK_CHECK(error.rank == 1);
  });
}

TEST_CASE("communicator: over TCP, too, errors name ranks that disagree or do not arrive") {
  std::vector<Error> errors(3);
  const World world{.ranks = 3, .per_host = 1};
  world.run([&](Communicator& comm) {
    std::vector<float> data(comm.rank() == 1 ? 12 : 10);
    const auto self = static_cast<std::size_t>(comm.rank());
    errors[self] = error_of(comm.all_reduce(floats(data), floats(data), Op::sum));
  });
  for (const Error& error : errors) {
    CHECK(error.code == Errc::mismatch);
    CHECK(error.text.find("all_reduce #1 sum f32[10]") != std::string::npos);
    CHECK(error.text.find("rank 1 called all_reduce #1 sum f32[12]") != std::string::npos);
  }
  World{.ranks = 3, .per_host = 1}.run([&](Communicator& comm) {
    const auto self = static_cast<std::size_t>(comm.rank());
    errors[self] = {};
    if (comm.rank() != 1) {
      errors[self] = error_of(comm.barrier({.timeout = std::chrono::milliseconds(300)}));
    }
    while (!comm.error()) {
      std::this_thread::yield();
    }
  });
  CHECK(errors[0].code == Errc::timeout);
  CHECK(errors[0].rank == 1);
  CHECK(errors[2].code == Errc::timeout);
  World{.ranks = 3, .per_host = 1}.run([&](Communicator& comm) {
    const auto self = static_cast<std::size_t>(comm.rank());
    errors[self] = comm.rank() == 1 ? Error{} : error_of(comm.barrier());
  });
  for (const std::size_t rank : {0UL, 2UL}) {
    CHECK(errors[rank].code == Errc::peer_failed);
    CHECK(errors[rank].rank == 1);
    CHECK(errors[rank].text.find("rank 1 has left") != std::string::npos);
  }
}

TEST_CASE("communicator: a rank that leaves after its last operation loses no data of other ranks",
          "[slow]") {
  const auto backend = GENERATE(Backend::shm, Backend::tcp);
  World{.ranks = 4, .backend = backend}.run([](Communicator& comm) {
    for (int round = 0; round < 60; ++round) {
      auto part = comm.split(0, 0);
      RANK_REQUIRE(part.has_value() && part->has_value());
      Communicator& mine = **part;
      std::vector<float> data(1003, 1);
      RANK_CHECK(error_of(mine.all_reduce(floats(data), floats(data), Op::sum)).text == "");
      // The last operation of a rank is a send or a receive, so ranks finish at different times.
      const int other = comm.rank() ^ 1;
      const auto last =
          comm.rank() % 2 == 0 ? mine.send(floats(data), other) : mine.recv(floats(data), other);
      RANK_CHECK(error_of(last).text == "");
      RANK_CHECK(data.back() == 4);
    }
  });
}

TEST_CASE("communicator: split by colour, ordered by key") {
  World{.ranks = 5}.run([](Communicator& comm) {
    const int color = comm.rank() == 4 ? -1 : comm.rank() % 2;
    auto part = comm.split(color, -comm.rank());
    RANK_REQUIRE(part.has_value());
    RANK_CHECK(part->has_value() == (color >= 0));
    if (*part) {
      Communicator& mine = **part;
      RANK_CHECK(mine.size() == 2);
      RANK_CHECK(mine.rank() == (comm.rank() < 2 ? 1 : 0));
      std::vector<float> data{static_cast<float>(comm.rank())};
      RANK_CHECK(error_of(mine.all_reduce(floats(data), floats(data), Op::sum)).text == "");
      RANK_CHECK(data[0] == static_cast<float>(color == 0 ? 0 + 2 : 1 + 3));
    }
    RANK_CHECK(comm.barrier().has_value());
  });
}

TEST_CASE("communicator: after a failure the ranks start again in another epoch") {
  World{.ranks = 2}.run([](Communicator& comm) {
    comm.abort("enough");
    Membership next;
    next.rank = comm.rank();
    next.size = 2;
    RANK_CHECK(!comm.rebuild(next).has_value());
    next.epoch = 1;
    auto again = comm.rebuild(next);
    RANK_REQUIRE(again.has_value());
    RANK_CHECK(again->epoch() == 1);
    RANK_CHECK(again->barrier().has_value());
    RANK_CHECK(!comm.barrier().has_value());
  });
}

TEST_CASE("communicator: the error names ranks that do not arrive") {
  const World world{.ranks = 3};
  auto options = world.options(0);
  options.init_timeout = std::chrono::milliseconds(50);
  Membership membership;
  membership.size = 3;
  const auto made = Communicator::create(world.store, membership, options);
  REQUIRE_FALSE(made.has_value());
  CHECK(made.error().code == Errc::timeout);
  CHECK(made.error().rank == 1);
  CHECK(made.error().text.find("2 of 3 ranks did not arrive in time: 1, 2") != std::string::npos);
}

TEST_CASE("communicator: all ranks get an error if a backend cannot reach all of them") {
  const World world{.ranks = 2, .backend = Backend::shm, .per_host = 1};
  std::vector<std::thread> threads;
  std::vector<Error> errors(2);
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      Membership membership;
      membership.rank = rank;
      membership.size = 2;
      const auto made = Communicator::create(world.store, membership, world.options(rank));
      errors[static_cast<std::size_t>(rank)] = made ? Error{} : made.error();
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  CHECK(errors[0].code == Errc::unsupported);
  CHECK(errors[1].code == Errc::unsupported);
}

}  // namespace
}  // namespace muster::collective
