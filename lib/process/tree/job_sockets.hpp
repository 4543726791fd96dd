// SPDX-License-Identifier: Apache-2.0
// JobSockets: checks whether one of our descendants has a given socket open, by the socket's inode.
// Reads /proc and caches the result, because the workers on a node connect at the same time. Used
// by the agent, which vouches for its workers' connections. Single-threaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>

#include <sys/types.h>

namespace muster {

class JobSockets {
 public:
  enum class Found : std::uint8_t {
    yes,
    no,
    cannot_tell,  // /proc belongs to another pid namespace, or some descriptors are unreadable
  };

  [[nodiscard]] Found find(std::uint64_t inode);

 private:
  // Sockets that our descendants had open. The kernel reuses an inode number only after it has
  // allocated 2^32 others.
  std::set<std::uint64_t> seen_;
};

}  // namespace muster
