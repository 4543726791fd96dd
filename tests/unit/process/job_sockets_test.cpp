// SPDX-License-Identifier: Apache-2.0
#include "process/tree/job_sockets.hpp"

#include "job_probe.hpp"
#include "support/catch.hpp"

#include <csignal>

#include <sys/socket.h>
#include <sys/stat.h>

using namespace muster;
using namespace muster::testing;

namespace {

std::uint64_t inode_of(const UniqueFd& fd) {
  struct stat about {};

  REQUIRE(::fstat(fd.get(), &about) == 0);
  return about.st_ino;
}

}  // namespace

TEST_CASE("job sockets: finds a child's socket, but not our own or a missing one") {
  const UniqueFd inherited(::socket(AF_INET, SOCK_STREAM, 0));
  const UniqueFd ours(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  JobProbe worker({.argv = {kPuppet, "say", "below", "wait"}});
  REQUIRE(worker.says("below"));
  JobSockets sockets;
  CHECK(sockets.find(inode_of(ours)) == JobSockets::Found::no);
  CHECK(sockets.find(inode_of(inherited)) == JobSockets::Found::yes);
  CHECK(sockets.find(inode_of(inherited)) == JobSockets::Found::yes);
  CHECK(sockets.find(0) == JobSockets::Found::no);
  worker.signal(SIGKILL);
}
