// SPDX-License-Identifier: Apache-2.0
// Ranks that have only connections: every operation and type in place; the report of a timeout.
#include "base/clock.hpp"
#include "collective/tcp/tcp_socket.hpp"
#include "unit/collective/run_operations.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace muster::collective {
namespace {

using testing::error_of;
using testing::floats;
using testing::Operation;
using testing::run_all;
using testing::World;

TEST_CASE("tcp: every operation and type in place, small and in slices", "[slow]") {
  const muster::testing::Seed seed;
  INFO(seed.describe());
  std::vector<Operation> operations;
  const auto add = [&](Request request) {
    operations.emplace_back(request, 3, seed.value() + operations.size(), true);
  };
  for (const DType dtype : testing::kHostTypes) {
    for (const std::size_t count : {1UL, 1003UL, 20001UL}) {
      for (const Op op : testing::kAllOps) {
        for (const Kind kind : {Kind::all_reduce, Kind::reduce, Kind::reduce_scatter}) {
          const int root = kind == Kind::reduce ? 1 : -1;
          add({.kind = kind, .op = op, .dtype = dtype, .count = count, .root = root, .scale = 3});
        }
      }
      add({.kind = Kind::broadcast, .dtype = dtype, .count = count, .root = 2});
      add({.kind = Kind::all_gather, .dtype = dtype, .count = count});
      add({.kind = Kind::all_to_all, .dtype = dtype, .count = count});
    }
  }
  const World world{.ranks = 3, .backend = Backend::tcp};
  CHECK(run_all(world, operations, false) == std::vector<std::string>{});
}

// Otherwise the senders would disconnect a rank that arrives late.
TEST_CASE("tcp: a connection detects a dead host, but waits for a peer that does not read") {
  const auto listening = listen_at("127.0.0.1", {});
  REQUIRE(listening.has_value());
  const auto fd =
      connect_until("127.0.0.1", listening->port, steady_now() + std::chrono::minutes(1));
  REQUIRE(fd.has_value());
  const auto option = [&](int level, int name) {
    int value = -1;
    socklen_t size = sizeof(value);
    CHECK(::getsockopt(fd->get(), level, name, &value, &size) == 0);
    return value;
  };
  CHECK(option(SOL_SOCKET, SO_KEEPALIVE) == 1);
  CHECK(option(IPPROTO_TCP, TCP_USER_TIMEOUT) == 0);
}

// Two sums on all ranks; then one rank does not arrive. The ranks in `wait_long` have a longer
// timeout, so another rank reports it.
std::vector<Error> after_two_sums(const World& world,
                                  int hung,
                                  const std::vector<int>& wait_long,
                                  Duration so_long = std::chrono::seconds(60)) {
  std::vector<Error> errors(static_cast<std::size_t>(world.ranks));
  world.run([&](Communicator& comm) {
    std::vector<float> data(10, 1);
    for (int i = 0; i < 2; ++i) {
      RANK_REQUIRE(error_of(comm.all_reduce(floats(data), floats(data), Op::sum)).text == "");
    }
    const bool is_patient = std::ranges::find(wait_long, comm.rank()) != wait_long.end();
    OpOptions options;
    options.timeout = is_patient ? so_long : std::chrono::milliseconds(300);
    if (comm.rank() != hung) {
      errors[static_cast<std::size_t>(comm.rank())] =
          error_of(comm.all_reduce(floats(data), floats(data), Op::max, options));
    }
    while (!comm.error()) {
      std::this_thread::yield();
    }
  });
  return errors;
}

void check_report(const std::vector<Error>& errors, int hung) {
  const std::string text =
      "rank " + std::to_string(hung) + " is missing; it was last seen in all_reduce #2 sum f32[10]";
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    if (static_cast<int>(rank) != hung) {
      INFO(errors[rank].text);
      CHECK(errors[rank].code == Errc::timeout);
      CHECK(errors[rank].rank == hung);
      CHECK(errors[rank].text.starts_with("all_reduce #3 max f32[10] timed out on rank "));
      CHECK(errors[rank].text.find(text) != std::string::npos);
    }
  }
}

TEST_CASE("tcp: the timeout error says where the missing rank was last seen") {
  check_report(after_two_sums({.ranks = 3, .per_host = 1}, 1, {}), 1);
}

TEST_CASE("hier: the timeout error says so about a rank on this host and on another one",
          "[slow]") {
  const World world{.ranks = 4, .backend = Backend::hier, .per_host = 2};
  check_report(after_two_sums(world, 3, {0, 1}), 3);  // rank 2 reports it
  check_report(after_two_sums(world, 3, {0, 2}), 3);  // rank 1, its partner
}

TEST_CASE("hier: a rank that waits for a waiting rank leaves the report to that rank") {
  const World world{.ranks = 4, .backend = Backend::hier, .per_host = 2};
  // Rank 0 times out first. Its partner, rank 2, waits for rank 3.
  check_report(after_two_sums(world, 3, {1, 2}, std::chrono::milliseconds(1500)), 3);
}

TEST_CASE("tcp: the timeout error of a receive says so, too") {
  Error error;
  World{.ranks = 2, .per_host = 1}.run([&](Communicator& comm) {
    std::vector<float> data(10);
    RANK_CHECK(comm.barrier().has_value());
    if (comm.rank() == 0) {
      error = error_of(comm.recv(floats(data), 1, {.timeout = std::chrono::milliseconds(50)}));
    }
    while (!comm.error()) {
      std::this_thread::yield();
    }
  });
  CHECK(error.text ==
        "recv #1 f32[10] from rank 1 timed out on rank 0: rank 1 is missing; it was last seen in "
        "barrier #1");
}

}  // namespace
}  // namespace muster::collective
