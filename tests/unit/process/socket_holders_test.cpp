// SPDX-License-Identifier: Apache-2.0
#include "process/socket_holders.hpp"

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

TEST_CASE("socket holders: a socket of a child is found, ours and nobody's are not") {
  const UniqueFd inherited(::socket(AF_INET, SOCK_STREAM, 0));
  const UniqueFd ours(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  JobProbe worker({.argv = {kPuppet, "say", "below", "wait"}});
  REQUIRE(worker.says("below"));
  CHECK(has_descendant_socket(inode_of(inherited)));
  CHECK_FALSE(has_descendant_socket(inode_of(ours)));
  CHECK_FALSE(has_descendant_socket(0));
  worker.signal(SIGKILL);
}
