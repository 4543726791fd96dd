// SPDX-License-Identifier: Apache-2.0
// StoreProxy with real sockets: which connections it forwards, and which it does not.
#include "agent/store/store_proxy.hpp"

#include "support/catch.hpp"

#include <asio/io_context.hpp>

#include <string>
#include <utility>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>

using namespace muster;
using namespace std::chrono_literals;

namespace {

// Keeps each query pending until the test answers it.
class Held final : public Admission {
 public:
  void admit(const PeerAddress& peer, AdmissionAnswer answer) override {
    peers.push_back(peer);
    answers.push_back(std::move(answer));
  }

  std::vector<PeerAddress> peers;
  std::vector<AdmissionAnswer> answers;
};

struct Bench {
  Bench() {
    auto opened = StoreProxy::open(
        loop, 0, {}, admission, [this](UniqueFd worker) { carried.push_back(std::move(worker)); });
    REQUIRE(opened);
    proxy = std::move(*opened);
    proxy->set_notice([this](const std::string& text) { said.push_back(text); });
  }

  // A worker whose connection has been accepted.
  UniqueFd worker() {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto there = SocketAddress::parse("127.0.0.1", proxy->port());
    REQUIRE(::connect(fd.get(), there->get(), there->size) == 0);
    const std::size_t before = admission.answers.size();
    while (admission.answers.size() == before && loop.run_one_for(5s) > 0) {
    }
    REQUIRE(admission.answers.size() == before + 1);
    return fd;
  }

  asio::io_context loop;
  Held admission;
  std::vector<UniqueFd> carried;
  std::vector<std::string> said;
  std::unique_ptr<StoreProxy> proxy;
};

}  // namespace

TEST_CASE("store proxy: forwards an admitted connection and reports a refused one") {
  Bench bench;
  const UniqueFd first = bench.worker();
  const SocketAddress mine = local_address(first.get());
  CHECK(bench.admission.peers[0] ==
        PeerAddress{"127.0.0.1", mine.port(), "127.0.0.1", bench.proxy->port()});
  CHECK(bench.carried.empty());
  bench.admission.answers[0]({});
  REQUIRE(bench.carried.size() == 1);
  CHECK(peer_address(bench.carried[0].get()).port() == mine.port());
  const UniqueFd second = bench.worker();
  bench.admission.answers[1](failure(Errc::not_possible, "no"));
  CHECK(bench.carried.size() == 1);
  CHECK(bench.said == std::vector<std::string>{"refused the connection from " +
                                               local_address(second.get()).describe() + ": no"});
}

// Another process may have the port already, and the answer would be about that process.
TEST_CASE("store proxy: does not forward a connection that the client has closed") {
  Bench bench;
  UniqueFd worker = bench.worker();
  REQUIRE(::send(worker.get(), "order", 5, 0) == 5);
  const linger at_once{1, 0};
  REQUIRE(::setsockopt(worker.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)) == 0);
  worker.reset();
  bench.admission.answers[0]({});
  CHECK(bench.carried.empty());
  CHECK(bench.said.empty());
}

TEST_CASE("store proxy: ignores an answer that arrives after it is closed") {
  Bench bench;
  const UniqueFd worker = bench.worker();
  bench.proxy.reset();
  bench.admission.answers[0]({});
  bench.loop.run_for(100ms);
  CHECK(bench.carried.empty());
}
