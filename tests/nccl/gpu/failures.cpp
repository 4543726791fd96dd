// SPDX-License-Identifier: Apache-2.0
// A rank is killed, stops, or never arrives: the others get an error in time, free the GPU, and
// continue without it in a new epoch. The last rank is the one that fails.
#include "base/clock.hpp"
#include "collective/communicator.hpp"
#include "collective/nccl/nccl_bootstrap.hpp"
#include "nccl/gpu/rank.hpp"
#include "rendezvous/client/store.hpp"

#include <fmt/format.h>

#include <csignal>
#include <thread>

#include <unistd.h>

namespace muster::gpu_check {
namespace {

using collective::Errc;
using collective::Error;

constexpr Duration kTimeout = std::chrono::seconds(30);
constexpr Duration kStopTimeout = std::chrono::seconds(3);
constexpr int kGoodSums = 3;
constexpr int kMostSums = 20;

double ms_since(TimePoint from) {
  return std::chrono::duration<double, std::milli>(steady_now() - from).count();
}

std::optional<Error> sum(nccl::NcclCommunicator& communicator,
                         const Memory& memory,
                         Duration timeout) {
  Request what = request(Kind::all_reduce, DType::f32, 1000, timeout);
  what.in = memory.get();
  what.out = memory.get();
  const auto work = communicator.start(what);
  if (!work) {
    return work.error();
  }
  const auto done = (*work)->wait(Duration::zero());
  return done ? std::nullopt : std::optional(done.error());
}

[[noreturn]] void fail_now(Rank& rank, int signal) {
  // The steady clock is the same for all processes on the machine.
  static_cast<void>(
      rank.store->set("failed_at", std::to_string(steady_now().time_since_epoch().count())));
  // A set has no reply, so send a request that has one, to be sure that it has arrived.
  static_cast<void>(rank.store->check({"failed_at"}));
  std::raise(signal);
  _exit(1);
}

TimePoint failed_at(Rank& rank) {
  const auto text = rank.store->get("failed_at", kTimeout);
  if (!text) {
    give_up(text.error().message);
  }
  return TimePoint(Duration(std::stoll(*text)));
}

// The survivors' part, up to a sum among them.
std::string survive(Rank& rank,
                    std::unique_ptr<nccl::NcclCommunicator> communicator,
                    const Error& error) {
  const TimePoint failed = failed_at(rank);
  const double seen = ms_since(failed);
  communicator.reset();
  auto next = must(rank.join(1, rank.size() - 1, kTimeout));
  const Memory memory(rank, 4000);
  memory.upload(std::vector<std::byte>(4000));
  if (auto again = sum(*next, memory, kTimeout)) {
    give_up("the new epoch: " + again->text);
  }
  return fmt::format("{}, GPU free after {:.0f} ms, next epoch sums after {:.0f} ms",
                     name_of(error.code),
                     seen,
                     ms_since(failed));
}

void lose_one(Rank& rank, int signal, Duration timeout, const std::string& what) {
  auto communicator = must(rank.join(0, rank.size(), kTimeout));
  const Memory memory(rank, 4000);
  memory.upload(std::vector<std::byte>(4000));
  for (int i = 0; i < kGoodSums; ++i) {
    if (auto error = sum(*communicator, memory, kTimeout)) {
      give_up(error->text);
    }
  }
  if (rank.rank() == rank.size() - 1) {
    fail_now(rank, signal);
  }
  const auto error = sum(*communicator, memory, timeout);
  if (!error) {
    give_up("a sum went well without one of its ranks");
  }
  const auto text = survive(rank, std::move(communicator), *error);
  if (rank.rank() == 0) {
    row(what, false, text);
  }
}

}  // namespace

void check_kill(Rank& rank) {
  lose_one(rank,
           SIGKILL,
           std::chrono::seconds(10),
           fmt::format("kill -9 of rank {} of {}", rank.size() - 1, rank.size()));
}

void check_stop(Rank& rank) {
  lose_one(rank,
           SIGSTOP,
           kStopTimeout,
           fmt::format("SIGSTOP of rank {} of {}, timeout {}",
                       rank.size() - 1,
                       rank.size(),
                       muster::describe(kStopTimeout)));
}

void check_absent(Rank& rank) {
  const TimePoint from = steady_now();
  if (rank.rank() == rank.size() - 1) {
    // Joins at the store, but not in NCCL.
    static_cast<void>(must(nccl::agree_on_id(rank.context(0, rank.size()), *rank.library)));
    return;
  }
  const auto made = rank.join(0, rank.size(), kStopTimeout);
  if (made) {
    give_up("a communicator was started without one of its ranks");
  }
  if (made.error().code != Errc::timeout) {
    give_up(made.error().text);
  }
  if (rank.rank() == 0) {
    row(fmt::format("start of {} ranks, one does not come", rank.size()),
        false,
        fmt::format("{} after {:.0f} ms, wanted {}",
                    name_of(made.error().code),
                    ms_since(from),
                    muster::describe(kStopTimeout)));
  }
}

// CUDA's documentation does not say whether a thread without a context may query the owner of
// memory.
static void check_pointers(const Rank& rank, const Memory& memory) {
  int seen = -1;
  std::thread([&] {
    seen = nccl::device_of(rank.driver->call.pointer_attribute, memory.get());
  }).join();
  if (seen != 0) {
    give_up("a thread without a context takes the GPU's memory for the host's");
  }
}

// The same through the public interface, which detects a death itself.
void check_public(Rank& rank) {
  auto made = collective::Communicator::create(rank.store, rank.place.membership);
  auto communicator = must(std::move(made));
  const Memory memory(rank, 4000);
  memory.upload(elements(DType::f32, 1000, [&](std::size_t i) { return double(i); }));
  check_pointers(rank, memory);
  const collective::Buffer buffer{memory.get(), 1000, DType::f32, 0};
  const auto sum_it = [&]() -> Result<void> {
    const auto work =
        communicator.all_reduce(buffer, buffer, Op::sum, {.timeout = std::chrono::seconds(10)});
    return work ? work->wait() : std::unexpected(work.error());
  };
  must(sum_it());
  const auto want =
      elements(DType::f32, 1000, [&](std::size_t i) { return double(i) * rank.size(); });
  if (memory.download(4000) != want) {
    give_up("Communicator::all_reduce on the GPU gave a wrong result");
  }
  if (rank.size() == 1) {
    row("Communicator, one rank", false, "a buffer on the GPU goes to NCCL by itself");
    return;
  }
  if (rank.rank() == rank.size() - 1) {
    fail_now(rank, SIGKILL);
  }
  const auto done = sum_it();
  const double seen = ms_since(failed_at(rank));
  if (done || done.error().rank != rank.size() - 1) {
    give_up(done ? "a sum went well without one of its ranks" : done.error().text);
  }
  if (rank.rank() == 0) {
    row(fmt::format("Communicator, kill -9 of rank {}", rank.size() - 1),
        false,
        fmt::format("{} naming rank {} after {:.0f} ms",
                    name_of(done.error().code),
                    done.error().rank,
                    seen));
  }
}

// Only over the fakes, which kill the last rank in the middle of a sum.
void check_inside(Rank& rank) {
  auto communicator = must(collective::Communicator::create(rank.store, rank.place.membership));
  const Memory memory(rank, 4000);
  memory.upload(std::vector<std::byte>(4000));
  const collective::Buffer buffer{memory.get(), 1000, DType::f32, 0};
  std::optional<Error> error;
  int good = 0;
  for (; good < kMostSums && !error; good += error ? 0 : 1) {
    const auto work = communicator.all_reduce(buffer, buffer, Op::sum, {.timeout = kTimeout});
    const auto done = work ? work->wait() : Result<void>(std::unexpected(work.error()));
    error = done ? std::nullopt : std::optional(done.error());
  }
  if (!error || error->code != Errc::peer_failed || error->rank != rank.size() - 1 || good == 0) {
    give_up(error ? error->text : "all sums went well");
  }
  row(fmt::format("kill -9 of rank {} inside a sum", rank.size() - 1),
      false,
      fmt::format("{} naming rank {} in sum {}", name_of(error->code), error->rank, good + 1));
}

}  // namespace muster::gpu_check
