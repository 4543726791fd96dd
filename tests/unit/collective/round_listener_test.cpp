// SPDX-License-Identifier: Apache-2.0
// RoundListener with a launcher in a thread of this process.
#include "collective/elastic/round_listener.hpp"

#include "base/fd.hpp"
#include "base/unix_socket.hpp"
#include "support/catch.hpp"
#include "worker/channel/frames.hpp"

#include <array>
#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>

#include <sys/socket.h>
#include <unistd.h>

using namespace muster::collective;
using namespace muster::collective::elastic;
namespace channel = muster::channel;

namespace {

constexpr auto kDeadline = std::chrono::seconds(60);

// Accepts one worker. MUSTER_AGENT contains the address while this object exists.
class Launcher {
 public:
  Launcher() {
    const std::string name = "muster-test-launcher-" + std::to_string(::getpid());
    const muster::UnixAddress address = muster::abstract_address(name);
    REQUIRE(::bind(listener_.get(), address.raw(), address.size) == 0);
    REQUIRE(::listen(listener_.get(), 1) == 0);
    REQUIRE(::setenv("MUSTER_AGENT", name.c_str(), 1) == 0);
  }

  ~Launcher() { ::unsetenv("MUSTER_AGENT"); }

  std::unique_ptr<RoundListener> connect() {
    auto opened = std::async(std::launch::async, [] { return RoundListener::open(); });
    worker_ = muster::UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    send(channel::Hello{});
    auto listener = opened.get();
    REQUIRE(listener);
    return std::move(*listener);
  }

  void send(const channel::AgentFrame& frame) {
    const std::string line = channel::encode(frame);
    REQUIRE(::send(worker_.get(), line.data(), line.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(line.size()));
  }

  void send_round(std::uint64_t epoch) {
    channel::Round round;
    round.epoch = epoch;
    send(round);
  }

  channel::WorkerFrame receive() {
    std::array<char, 4096> bytes{};
    while (!lines_.has_line()) {
      const auto count = ::recv(worker_.get(), bytes.data(), bytes.size(), 0);
      REQUIRE(count > 0);
      lines_.feed({bytes.data(), static_cast<std::size_t>(count)});
    }
    return channel::decode_worker_frame(**lines_.next())->value();
  }

  void close() { worker_.reset(); }

 private:
  muster::UniqueFd listener_{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  muster::UniqueFd worker_;
  channel::LineReader lines_;
};

}  // namespace

TEST_CASE("round listener: aborts the communicator of a round that loses a rank, and no other") {
  Launcher launcher;
  const auto listener = launcher.connect();
  CHECK(launcher.receive() == channel::WorkerFrame(channel::Subscribe{true}));
  launcher.send_round(4);
  CHECK(listener->wait_for_round({})->epoch == 4);
  auto first = Communicator::create(nullptr, {});
  REQUIRE(first);
  listener->enter(4);
  listener->guard(*first);
  CHECK_FALSE(listener->failure());
  launcher.send(channel::Gone{4, 1, 1, true, "killed"});
  REQUIRE(listener->wait_for_loss(4, kDeadline));
  CHECK(listener->failure()->rank == 1);
  REQUIRE(first->error());
  CHECK(first->error()->code == Errc::aborted);
  listener->unguard();

  launcher.send_round(5);
  CHECK(listener->wait_for_round(4)->epoch == 5);
  listener->enter(5);
  auto second = Communicator::create(nullptr, {});
  REQUIRE(second);
  listener->guard(*second);
  CHECK_FALSE(listener->failure());
  CHECK_FALSE(second->error());
  listener->unguard();
}

TEST_CASE("round listener: a communicator of a round that is over is aborted at once") {
  Launcher launcher;
  const auto listener = launcher.connect();
  launcher.send_round(4);
  launcher.send(channel::Gone{4, 1, 1, true, "killed"});
  REQUIRE(listener->wait_for_loss(4, kDeadline));
  auto late = Communicator::create(nullptr, {});
  REQUIRE(late);
  listener->enter(4);
  listener->guard(*late);
  CHECK(late->error());
  listener->unguard();
}

TEST_CASE("round listener: confirms the news of each loss") {
  Launcher launcher;
  const auto listener = launcher.connect();
  CHECK(launcher.receive() == channel::WorkerFrame(channel::Subscribe{true}));
  launcher.send_round(4);  // the first one
  launcher.send(channel::Gone{4, 1, 1, false, "exited with code 0"});
  launcher.send(channel::Gone{4, 2, 1, true, "killed"});
  CHECK(launcher.receive() == channel::WorkerFrame(channel::Heard{}));
  launcher.send_round(5);
  CHECK(launcher.receive() == channel::WorkerFrame(channel::Heard{}));
  listener->enter(5);
  CHECK(launcher.receive() == channel::WorkerFrame(channel::Heard{true}));
  REQUIRE(listener->ready(5));
  CHECK(launcher.receive() == channel::WorkerFrame(channel::Ready{5}));
}

TEST_CASE("round listener: reports its state, and notices that the launcher has exited") {
  Launcher launcher;
  const auto listener = launcher.connect();
  REQUIRE(listener->ready(4));
  listener->finish();
  CHECK(launcher.receive() == channel::WorkerFrame(channel::Subscribe{true}));
  CHECK(launcher.receive() == channel::WorkerFrame(channel::Ready{4}));
  CHECK(launcher.receive() == channel::WorkerFrame(channel::Subscribe{false}));
  launcher.close();
  CHECK_FALSE(listener->wait_for_round({}));
  CHECK_FALSE(listener->wait_for_loss(4, kDeadline));
  CHECK(listener->ready(4).error().code == Errc::system);
}

TEST_CASE("round listener: a launcher that refuses this process is an error") {
  Launcher launcher;
  ::setenv("MUSTER_AGENT", "muster-no-launcher", 1);
  const auto refused = RoundListener::open();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == Errc::system);
  CHECK(refused.error().text.find("cannot subscribe to muster: ") == 0);
}
