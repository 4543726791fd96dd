// SPDX-License-Identifier: Apache-2.0
// Descriptors are accepted only from our own user, because another user may have bound the name
// first.
#include "collective/shm/fd_exchange.hpp"

#include "base/clock.hpp"
#include "support/catch.hpp"

#include <string>

#include <grp.h>
#include <sys/wait.h>
#include <unistd.h>

namespace muster::collective {
namespace {

constexpr uid_t kNobody = 65534;

TEST_CASE("fd exchange: rejects a descriptor from another user") {
  if (::geteuid() != 0) {
    WARN("skipped: only root can become another user");
    return;
  }
  const std::string word = "fd-exchange-test-" + std::to_string(::getpid());
  auto opened = make_pipe();
  auto over = make_pipe();
  REQUIRE(opened);
  REQUIRE(over);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    over->write.reset();
    char byte = 0;
    const bool is_nobody =
        ::setgroups(0, nullptr) == 0 && ::setgid(kNobody) == 0 && ::setuid(kNobody) == 0;
    const auto giver = FdGiver::open(word);
    const bool is_told = giver && ::write(opened->write.get(), "o", 1) == 1;
    ::_exit(is_nobody && is_told && ::read(over->read.get(), &byte, 1) == 0 ? 0 : 1);
  }
  opened->write.reset();
  char byte = 0;
  REQUIRE(::read(opened->read.get(), &byte, 1) == 1);
  const auto taken = take_fds(word, 1, 1, steady_now() + std::chrono::minutes(1));
  REQUIRE_FALSE(taken);
  CHECK(taken.error().code == Errc::peer_failed);
  CHECK(taken.error().text ==
        "the process that provides this host's shared memory belongs to another user");
  over->write.reset();
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

}  // namespace
}  // namespace muster::collective
