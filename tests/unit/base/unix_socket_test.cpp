// SPDX-License-Identifier: Apache-2.0
#include "base/unix_socket.hpp"

#include "support/catch.hpp"

#include <array>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace muster;

namespace {

struct Pair {
  UniqueFd one;
  UniqueFd other;
};

Pair connected() {
  int fds[2] = {};
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

ino_t file_of(int fd) {
  struct stat what {};

  REQUIRE(::fstat(fd, &what) == 0);
  return what.st_ino;
}

constexpr std::array<char, 3> kData{'a', 'b', 'c'};

}  // namespace

TEST_CASE("unix socket: descriptors arrive with their bytes, close-on-exec") {
  const Pair pair = connected();
  const auto pipe = make_pipe();
  REQUIRE(pipe);
  const std::array<int, 2> sent{pipe->read.get(), pair.one.get()};
  REQUIRE(send_with_fds(pair.one.get(), kData, sent));
  std::array<char, 3> data{};
  const auto got = receive_with_fds(pair.other.get(), data);
  CHECK(data == kData);
  REQUIRE(got.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(file_of(got[i].get()) == file_of(sent[i]));
    CHECK((::fcntl(got[i].get(), F_GETFD) & FD_CLOEXEC) != 0);
  }
}

TEST_CASE("unix socket: a message of another length returns nothing and leaks no descriptor") {
  const Pair pair = connected();
  const std::array<int, 1> sent{pair.one.get()};
  for (const std::size_t wanted : {2UL, 4UL}) {
    REQUIRE(send_with_fds(pair.one.get(), kData, sent));
    const UniqueFd before(::dup(0));
    std::vector<char> data(wanted);
    CHECK(receive_with_fds(pair.other.get(), data).empty());
    const UniqueFd after(::dup(0));
    CHECK(after.get() == before.get() + 1);
  }
}

TEST_CASE("unix socket: a message without descriptors, or no message, returns nothing") {
  const Pair pair = connected();
  std::array<char, 3> data{};
  CHECK(receive_with_fds(pair.other.get(), data).empty());
  REQUIRE(::send(pair.one.get(), kData.data(), kData.size(), 0) == 3);
  CHECK(receive_with_fds(pair.other.get(), data).empty());
}

TEST_CASE("unix socket: sends neither an empty nor an overlong list of descriptors") {
  const Pair pair = connected();
  CHECK_FALSE(send_with_fds(pair.one.get(), kData, {}));
  const std::vector<int> many(kMostPassedFds + 1, pair.one.get());
  CHECK_FALSE(send_with_fds(pair.one.get(), kData, many));
}

TEST_CASE("unix socket: identifies the peer") {
  const Pair pair = connected();
  const auto who = peer_of(pair.one.get());
  REQUIRE(who);
  CHECK(who->pid == ::getpid());
  CHECK(who->uid == ::geteuid());
  CHECK_FALSE(peer_of(-1));
}
