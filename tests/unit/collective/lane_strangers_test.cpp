// SPDX-License-Identifier: Apache-2.0
// Strangers that connect to a rank's port: with garbage, with a wrong key, and with the right key
// after the rank itself has connected.
#include "base/clock.hpp"
#include "base/text.hpp"
#include "collective/tcp/half_open.hpp"
#include "collective/tcp/mesh.hpp"
#include "collective/tcp/tcp_socket.hpp"
#include "support/catch.hpp"
#include "unit/collective/local_store.hpp"

#include <cerrno>
#include <cstring>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>

namespace muster::collective {
namespace {

TimePoint later() {
  return steady_now() + std::chrono::minutes(1);
}

std::string bytes_of(const Hello& hello) {
  std::string out(sizeof(hello), '\0');
  std::memcpy(out.data(), &hello, sizeof(hello));
  return out;
}

LaneKey with_other_bit(LaneKey key, std::size_t byte) {
  key.bytes[byte] ^= 1U;
  return key;
}

// What rank 0 publishes: its port and its key.
struct Card {
  explicit Card(const std::string& text) {
    const auto fields = muster::split(text, ' ');
    REQUIRE(fields.size() == 3);
    port = static_cast<std::uint16_t>(*parse_int(fields[1]));
    key = *LaneKey::parse(fields[2]);
  }

  std::uint16_t port = 0;
  LaneKey key;
};

std::vector<std::string> attacks_on(const Card& card) {
  std::vector<std::string> out{"", "x", "GET / HTTP/1.1\r\n\r\n", std::string(4096, '\xff')};
  for (std::uint32_t lane = 0; lane < 3; ++lane) {
    out.push_back(bytes_of({.key = {}, .rank = 1, .lane = lane}));
    out.push_back(bytes_of({.key = with_other_bit(card.key, 0), .rank = 1, .lane = lane}));
    out.push_back(bytes_of({.key = with_other_bit(card.key, 15), .rank = 1, .lane = lane}));
    out.push_back(bytes_of({.magic = 1, .key = card.key, .rank = 1, .lane = lane}));
  }
  for (const int rank : {-1, 0, 2, 1 << 30}) {
    out.push_back(bytes_of({.key = card.key, .rank = rank, .lane = 0}));
  }
  out.push_back(bytes_of({.key = card.key, .rank = 1, .lane = 3}));
  return out;
}

// True once the connection is closed; the rank must not have sent anything.
bool is_closed_unheard(const UniqueFd& fd) {
  char byte = 0;
  const auto count = ::recv(fd.get(), &byte, 1, 0);
  return count == 0 || (count < 0 && errno == ECONNRESET);
}

TEST_CASE("lane key: parses its own text, and nothing else") {
  const auto key = LaneKey::random();
  const auto other = LaneKey::random();
  REQUIRE(key.has_value());
  REQUIRE(other.has_value());
  CHECK(LaneKey::parse(key->text())->matches(*key));
  CHECK_FALSE(key->matches(*other));
  for (std::size_t i = 0; i < key->bytes.size(); ++i) {
    CHECK_FALSE(key->matches(with_other_bit(*key, i)));
  }
  CHECK_FALSE(LaneKey::parse(""));
  CHECK_FALSE(LaneKey::parse(key->text() + "0"));
  CHECK_FALSE(LaneKey::parse("x" + key->text().substr(1)));
  CHECK_FALSE(LaneKey::parse("+" + key->text().substr(1)));
}

// Reports no death, so ranks detect one only through their connections.
class NoWatch final : public PeerWatch {
 public:
  [[nodiscard]] std::optional<Error> failure() const override { return std::nullopt; }

  void report(const Error& /*error*/) override {}
};

TEST_CASE("lanes: connections from strangers neither join nor disturb the ranks") {
  muster::testing::LocalStore store;
  NoWatch watch;
  const auto join = [&](int rank) {
    const BootstrapContext context{
        .store = &store, .prefix = "job/", .rank = rank, .size = 2, .deadline = later()};
    return Mesh::connect(context, {.address = "127.0.0.1", .ports = {}}, watch);
  };
  auto joining = std::async(std::launch::async, [&] { return join(0); });
  const Card card(*store.get("job/tcp/0", std::chrono::minutes(1)));
  std::vector<UniqueFd> strangers;
  for (const std::string& attack : attacks_on(card)) {
    auto fd = connect_until("127.0.0.1", card.port, later());
    REQUIRE(fd.has_value());
    REQUIRE(send_all(fd->get(), attack, later()));
    REQUIRE(::fcntl(fd->get(), F_SETFL, 0) == 0);
    strangers.push_back(std::move(*fd));
  }
  auto one = join(1);
  auto zero = joining.get();
  REQUIRE(one.has_value());
  REQUIRE(zero.has_value());
  for (const Lane lane : {Lane::data, Lane::message}) {
    REQUIRE(send_all((*one)->fd(0, lane), {"ours", 4}, later()));
    char heard[4] = {};
    REQUIRE(::fcntl((*zero)->fd(1, lane), F_SETFL, 0) == 0);
    REQUIRE(::recv((*zero)->fd(1, lane), heard, sizeof(heard), MSG_WAITALL) == sizeof(heard));
    CHECK(std::string(heard, sizeof(heard)) == "ours");
  }
  CHECK_FALSE((*zero)->failure());
  for (const UniqueFd& stranger : strangers) {
    CHECK(is_closed_unheard(stranger));
  }
}

}  // namespace
}  // namespace muster::collective
