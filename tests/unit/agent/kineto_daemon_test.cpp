// SPDX-License-Identifier: Apache-2.0
// This process plays a worker whose profiler polls the daemon.
#include "agent/workers/kineto_daemon.hpp"

#include "agent/workers/kineto_messages.hpp"
#include "base/clock.hpp"
#include "base/fd.hpp"
#include "support/catch.hpp"

#include <asio/io_context.hpp>

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr int kRank = 7;

sockaddr_un address_of(const std::string& path) {
  sockaddr_un out{.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(out.sun_path, sizeof(out.sun_path) - 1);
  return out;
}

// Binds in the daemon's folder and sends from there, like Kineto.
class Profiler {
 public:
  Profiler(asio::io_context& loop, const std::string& folder)
      : loop_(loop), fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_un own = address_of(folder + "/dynoconfigclient1");
    const sockaddr_un daemon = address_of(folder + "/dynolog");
    REQUIRE(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&own), sizeof(own)) == 0);
    REQUIRE(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&daemon), sizeof(daemon)) == 0);
  }

  void send(const std::string& datagram) const {
    REQUIRE(::send(fd_.get(), datagram.data(), datagram.size(), 0) ==
            static_cast<ssize_t>(datagram.size()));
    loop_.restart();
    loop_.poll();
  }

  [[nodiscard]] std::optional<KinetoMessage> answer() const {
    std::array<char, 4096> bytes{};
    const ssize_t count = ::recv(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    return count < 0 ? std::nullopt
                     : decode_kineto({bytes.data(), static_cast<std::size_t>(count)});
  }

  // The configuration that the daemon answers to a poll.
  [[nodiscard]] std::string poll() const {
    send(encode_kineto({std::string(kKinetoRequest), "data"}));
    const auto got = answer();
    REQUIRE(got);
    CHECK(got->type == kKinetoRequest);
    return got->data;
  }

 private:
  asio::io_context& loop_;
  UniqueFd fd_;
};

struct Bench {
  Bench() {
    auto opened = daemon.open("");
    REQUIRE(opened);
    folder = *opened;
    started(::getpid());
  }

  void tell(event::What what) { daemon.take(JobEvent{0, "host", 1, std::move(what)}); }

  void started(pid_t pid) { tell(event::WorkerStarted{0, kRank, pid}); }

  asio::io_context loop;
  KinetoDaemon daemon{loop};
  std::string folder;
};

ProfileRequest steps_of(int rank) {
  return {.rank = rank, .steps = 3, .file = "/t/rank_7.json"};
}

}  // namespace

TEST_CASE("Kineto's daemon: a request is answered once, and polls without one are empty") {
  Bench bench;
  const Profiler profiler(bench.loop, bench.folder);
  CHECK(profiler.poll().empty());
  CHECK(bench.daemon.request(steps_of(kRank)).empty());
  CHECK(bench.daemon.request(steps_of(kRank)).starts_with("another musterctl profile"));
  CHECK(profiler.poll() == kineto_configuration(steps_of(kRank)));
  CHECK(profiler.poll().empty());
  CHECK(bench.daemon.request(steps_of(kRank)).empty());
}

TEST_CASE("Kineto's daemon: ranks that do not poll are refused") {
  Bench bench;
  CHECK(bench.daemon.request(steps_of(kRank)).empty());  // it may still import PyTorch
  CHECK(bench.daemon.request(steps_of(kRank + 1)).starts_with("PyTorch's profiler does not"));
  WorkerExit exit;
  exit.pid = ::getpid();
  bench.tell(event::WorkerEnded{exit, kRank, true});
  CHECK_FALSE(bench.daemon.request(steps_of(kRank)).empty());
  const Profiler stranger(bench.loop, bench.folder);
  CHECK(stranger.poll().empty());
  bench.started(::getpid());
  CHECK(stranger.poll().empty());  // the request ended with the worker
}

TEST_CASE("Kineto's daemon: a start that is too early is moved") {
  Bench bench;
  const Profiler profiler(bench.loop, bench.folder);
  const auto now = static_cast<std::int64_t>(wall_now_seconds() * 1000);
  ProfileRequest wanted{.rank = kRank, .milliseconds = 5, .start = now, .file = "/a.json"};
  REQUIRE(bench.daemon.request(wanted).empty());
  const std::string text = profiler.poll();
  CHECK(text.find("DURATION_MSECS=5\n") != std::string::npos);
  CHECK(text != kineto_configuration(wanted));
  wanted.start = now + 3'600'000;
  REQUIRE(bench.daemon.request(wanted).empty());
  CHECK(profiler.poll() == kineto_configuration(wanted));
}

TEST_CASE("Kineto's daemon: a process registers, and garbage gets no answer") {
  Bench bench;
  const Profiler profiler(bench.loop, bench.folder);
  profiler.send(encode_kineto({std::string(kKinetoContext), "data"}));
  const auto registered = profiler.answer();
  REQUIRE(registered);
  CHECK(registered->data == std::string("\1\0\0\0", 4));
  for (const std::string& garbage : {std::string(), std::string(40, 'x'), std::string(40, '\0')}) {
    profiler.send(garbage);
    CHECK_FALSE(profiler.answer());
  }
  CHECK(profiler.poll().empty());
}

TEST_CASE("Kineto's daemon: its folder disappears with it, whatever is in it") {
  std::string folder;
  {
    Bench bench;
    folder = bench.folder;
    const Profiler profiler(bench.loop, folder);
    CHECK(std::filesystem::exists(folder + "/dynolog"));
    const auto again = bench.daemon.open(std::string(100, 'x'));  // too long for a socket
    REQUIRE(again);
    CHECK_FALSE(std::filesystem::exists(folder));
    CHECK(again->starts_with("/tmp/muster-kineto-"));
    folder = *again;
  }
  CHECK_FALSE(std::filesystem::exists(folder));
}

}  // namespace muster
