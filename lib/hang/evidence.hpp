// SPDX-License-Identifier: Apache-2.0
// Evidence about a job that makes no progress. For each rank it contains the processes as shown by
// /proc, their stacks, and the rank's position in its collective operations. hang_watch gathers it,
// and judge evaluates it. Value types; the code that gathers them limits their size.
#pragma once

#include "hang/verdict.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace muster::hang {

// What a thread is waiting for in the kernel, according to its system call.
enum class WaitKind {
  nothing,  // the thread is running, or its system call cannot be read
  lock,     // futex: a mutex, condition variable or semaphore
  read,
  write,
  open,
  file_lock,
  sync,
  poll,  // poll, select or epoll: waits for one of several descriptors
  socket,
  child,
  sleep,
  signal,
  other,
};

struct Wait {
  WaitKind kind = WaitKind::nothing;
  std::string call{};  // "read"; empty if unknown
  std::string path{};  // path of the descriptor or file, or "pipe:[123]"
  int fd = -1;
  pid_t holder = 0;  // holder of the file lock, or process at the other end of the pipe
  bool operator==(const Wait&) const = default;
};

struct ThreadFacts {
  pid_t tid = 0;
  std::string name{};
  char state = '?';  // as in /proc/<pid>/stat
  std::string kernel_function{};
  Wait wait{};
  double cpu = 0;     // fraction of one CPU between the two samples
  bool runs = false;  // runnable in both samples, even if it got no CPU
  bool operator==(const ThreadFacts&) const = default;
};

struct Frame {
  std::string function{};
  std::string file{};  // empty for native code
  int line = 0;
  bool operator==(const Frame&) const = default;
};

// Innermost frame first.
struct Stack {
  pid_t tid = 0;
  std::string name{};
  bool python = false;
  bool holds_gil = false;
  std::vector<Frame> frames{};
  bool operator==(const Stack&) const = default;
};

struct ProcessFacts {
  pid_t pid = 0;
  pid_t parent = 0;
  std::string command{};
  char state = '?';
  pid_t tracer = 0;
  std::vector<ThreadFacts> threads{};  // the main thread first
  std::vector<Stack> stacks{};
  bool operator==(const ProcessFacts&) const = default;
};

// An operation of the collective library.
struct Operation {
  std::uint64_t number = 0;
  std::string what{};     // "all_reduce sum f32[25]": must be the same on all ranks
  int peer = -1;          // for send and recv: group rank of the peer
  std::uint64_t age = 0;  // ns since the call
  bool operator==(const Operation&) const = default;
};

// A rank's position in one communicator.
struct Position {
  std::string group{};               // name of the group, the same on all of its ranks
  int rank = 0;                      // rank in the group; -1 if unknown
  int size = 0;                      // 0 if unknown
  std::uint64_t entered = 0;         // number of the last call, not counting send and recv
  std::vector<Operation> recent{};   // completed operations, oldest first
  std::vector<Operation> pending{};  // operations that were called but are not complete
  bool operator==(const Position&) const = default;
};

// What one rank is doing, judged independently of the other ranks (own_cause.hpp).
struct OwnCause {
  Cause cause = Cause::unknown;
  std::string reason{};  // "sleeping in main (train.py:12)"
  // The operation in which the rank waits for other ranks; empty if there is none.
  std::string collective{};
  pid_t holder = 0;                  // pid of the process that the rank waits for; 0 if unknown
  std::vector<std::string> stack{};  // stack of the relevant thread
  int holder_rank = -1;              // rank of the process `holder`, if judged on another node
  bool on_gpu = false;               // the rank spins only because it waits for a GPU
  bool operator==(const OwnCause&) const = default;
};

struct RankEvidence {
  int rank = 0;
  int local_rank = 0;
  bool ended = false;   // the rank exited successfully; other ranks may still wait for it
  double quiet = 0;     // seconds since the rank's last progress
  double lifeless = 0;  // seconds since the rank's last sign of life
  bool strong = false;  // the rank has completed a step or an operation
  std::optional<std::uint64_t> steps{};
  std::vector<ProcessFacts> processes{};  // the worker first, then its descendants
  std::vector<Position> positions{};
  std::string node{};  // multi-node: name of the rank's node
  // Multi-node: the result from the rank's own node. `processes` is then empty.
  std::optional<OwnCause> own{};
  bool operator==(const RankEvidence&) const = default;
};

struct Evidence {
  double limit = 0;     // seconds: maximum time without progress
  double progress = 0;  // seconds since any rank made progress
  int world_size = 0;   // may be larger than the size of `ranks`
  std::vector<RankEvidence> ranks{};
  std::vector<std::string> gaps{};  // missing evidence, with advice
  bool operator==(const Evidence&) const = default;
};

}  // namespace muster::hang
