// SPDX-License-Identifier: Apache-2.0
// StoreCarrier between two nodes with real sockets: a worker's bytes reach a store that the worker
// cannot reach itself, and the replies come back.
#include "test_node.hpp"

#include <array>
#include <cerrno>
#include <string>

#include <fcntl.h>
#include <sys/socket.h>

using namespace muster;
using namespace muster::testing;

namespace {

UniqueFd without_waiting(int fd) {
  ::fcntl(fd, F_SETFL, O_NONBLOCK);
  return UniqueFd(fd);
}

// Reads all available bytes; true at the end of the connection.
bool read_all(const UniqueFd& fd, std::string& out) {
  std::array<char, 65536> buffer{};
  while (true) {
    const auto count = ::recv(fd.get(), buffer.data(), buffer.size(), 0);
    if (count <= 0) {
      return count == 0 || errno != EAGAIN;
    }
    out.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

// Two nodes in one round; the store is a listener that the test serves.
struct Carriage {
  TestJob job;
  std::unique_ptr<TestNode> near = job.add();
  std::unique_ptr<TestNode> far = job.add();
  UniqueFd listener;
  UniqueFd worker;
  UniqueFd store;

  Carriage() {
    REQUIRE(job.until([&] { return near->world() == 2 && far->world() == 2; }));
    auto listening = listen_on("127.0.0.1", 0);
    REQUIRE(listening);
    listener = std::move(*listening);
    near->node().carrier()->set_store(
        CarriedStore{near->round->round->id, "127.0.0.1", port_of(listener.get())});
  }

  void connect(RoundId round) {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    worker = without_waiting(ends[0]);
    far->node().carrier()->carry(without_waiting(ends[1]),
                                 {round, near->node().address(), near->node().port()});
  }

  void connect() { connect(near->round->round->id); }

  [[nodiscard]] bool reaches_store() {
    store.reset();
    return job.until([&] {
      if (!store) {
        store = UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      }
      return static_cast<bool>(store);
    });
  }

  void say(const UniqueFd& from, const std::string& text) {
    REQUIRE(::send(from.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(text.size()));
  }

  [[nodiscard]] bool hears(const UniqueFd& fd, const std::string& text) {
    std::string heard;
    return job.until([&] { return read_all(fd, heard) || heard == text; }) && heard == text;
  }

  [[nodiscard]] bool ends(const UniqueFd& fd) {
    std::string rest;
    return job.until([&] { return read_all(fd, rest); });
  }
};

}  // namespace

TEST_CASE("carrier: forwards a worker's bytes to the store, and the replies back") {
  Carriage carriage;
  carriage.connect();
  carriage.say(carriage.worker, "question");
  REQUIRE(carriage.reaches_store());
  CHECK(carriage.hears(carriage.store, "question"));
  carriage.say(carriage.store, "answer");
  CHECK(carriage.hears(carriage.worker, "answer"));
}

TEST_CASE("carrier: forwards the end of either side to the other") {
  Carriage carriage;
  carriage.connect();
  REQUIRE(carriage.reaches_store());
  carriage.say(carriage.worker, "last words");
  carriage.worker.reset();
  CHECK(carriage.hears(carriage.store, "last words"));
  CHECK(carriage.ends(carriage.store));

  carriage.connect();
  REQUIRE(carriage.reaches_store());
  carriage.say(carriage.store, "good bye");
  carriage.store.reset();
  CHECK(carriage.hears(carriage.worker, "good bye"));
  CHECK(carriage.ends(carriage.worker));
}

TEST_CASE("carrier: a side that has sent all its data still receives the reply") {
  Carriage carriage;
  carriage.connect();
  carriage.say(carriage.worker, "question");
  ::shutdown(carriage.worker.get(), SHUT_WR);  // possibly before the store is reached
  REQUIRE(carriage.reaches_store());
  CHECK(carriage.hears(carriage.store, "question"));
  CHECK(carriage.ends(carriage.store));
  carriage.say(carriage.store, "answer");
  CHECK(carriage.hears(carriage.worker, "answer"));
  carriage.store.reset();
  CHECK(carriage.ends(carriage.worker));

  carriage.connect();
  REQUIRE(carriage.reaches_store());
  ::shutdown(carriage.store.get(), SHUT_WR);
  CHECK(carriage.ends(carriage.worker));
  carriage.say(carriage.worker, "as you like");
  CHECK(carriage.hears(carriage.store, "as you like"));
  carriage.worker.reset();
  CHECK(carriage.job.until([&] {
    // Once both have ended, no open connection is left to write to.
    return ::send(carriage.store.get(), "x", 1, MSG_NOSIGNAL) < 0 && errno == EPIPE;
  }));
}

TEST_CASE("carrier: a side that does not read blocks the other one, and nothing is lost") {
  Carriage carriage;
  carriage.connect();
  REQUIRE(carriage.reaches_store());
  const std::string chunk(65536, 'x');
  std::size_t sent = 0;
  // All buffers on the way are full if nothing more is accepted, however often the loop runs.
  int idle = 0;
  REQUIRE(carriage.job.until([&] {
    const auto count = ::send(carriage.worker.get(), chunk.data(), chunk.size(), MSG_NOSIGNAL);
    sent += count > 0 ? static_cast<std::size_t>(count) : 0;
    idle = count > 0 ? 0 : idle + 1;
    return idle >= 5;  // checked again after the end
  }));
  CHECK(sent < 64UL * 1024 * 1024);
  carriage.worker.reset();
  std::size_t heard = 0;
  REQUIRE(carriage.job.until([&] {
    std::string part;
    const bool ended = read_all(carriage.store, part);
    heard += part.size();
    return ended;
  }));
  CHECK(heard == sent);
}

TEST_CASE("carrier: does not reach the store of another round or of none") {
  Carriage carriage;
  carriage.connect(RoundId{99, 99});
  CHECK(carriage.ends(carriage.worker));
  carriage.near->node().carrier()->set_store(std::nullopt);
  carriage.connect();
  CHECK(carriage.ends(carriage.worker));
  CHECK(carriage.near->world() == 2);
  CHECK(carriage.far->world() == 2);
}

TEST_CASE("carrier: closing the store ends existing connections") {
  Carriage carriage;
  carriage.connect();
  REQUIRE(carriage.reaches_store());
  carriage.near->node().carrier()->set_store(std::nullopt);
  CHECK(carriage.ends(carriage.store));
  CHECK(carriage.ends(carriage.worker));
}
