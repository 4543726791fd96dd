// SPDX-License-Identifier: Apache-2.0
// JobSockets: whether a process below this one has a socket open, by the inode that the kernel
// names for it. Looks into /proc; what was seen is kept, since the workers of a node connect at the
// same time. Used by the agent, which answers for its workers' connections. One thread.
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
    cannot_tell,  // /proc is another pid namespace's, or a process keeps its descriptors to itself
  };

  [[nodiscard]] Found find(std::uint64_t inode);

 private:
  // Sockets that processes below us had open. A number is given to another socket only after the
  // kernel has counted to 2^32.
  std::set<std::uint64_t> seen_;
};

}  // namespace muster
