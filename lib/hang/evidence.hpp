// SPDX-License-Identifier: Apache-2.0
// What is known of a job that makes no progress: of each rank its processes as /proc shows them,
// its stacks, where it is in its collective operations. Gathered by hang_watch, judged by judge.
// Value types; bounded by whoever gathers them.
#pragma once

#include "hang/verdict.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace muster::hang {

// What a thread waits for inside the kernel, as its system call says.
enum class WaitKind {
  nothing,  // it runs, or nobody may know
  lock,     // futex: a mutex, a condition, a semaphore
  read,
  write,
  open,
  file_lock,
  sync,
  poll,  // poll, select, epoll: one of several descriptors
  socket,
  child,
  sleep,
  signal,
  other,
};

struct Wait {
  WaitKind kind = WaitKind::nothing;
  std::string call{};  // "read"; empty: not known
  std::string path{};  // of the descriptor or file; "pipe:[123]" where it has none
  int fd = -1;
  pid_t holder = 0;  // of a file lock; a reader or writer of the same pipe: where one is known
  bool operator==(const Wait&) const = default;
};

struct ThreadFacts {
  pid_t tid = 0;
  std::string name{};
  char state = '?';  // as in /proc/<pid>/stat
  std::string kernel_function{};
  Wait wait{};
  double cpu = 0;     // of one processor, between two looks
  bool runs = false;  // at both of them, though others may have had the processor
  bool operator==(const ThreadFacts&) const = default;
};

struct Frame {
  std::string function{};
  std::string file{};  // empty in native code
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
  std::vector<ThreadFacts> threads{};  // the main one first
  std::vector<Stack> stacks{};
  bool operator==(const ProcessFacts&) const = default;
};

// One operation of the collective library.
struct Operation {
  std::uint64_t number = 0;
  std::string what{};     // "all_reduce sum f32[25]": what must be the same on all ranks
  int peer = -1;          // of a send or recv: rank of the other side in the group
  std::uint64_t age = 0;  // ns since it was called
  bool operator==(const Operation&) const = default;
};

// Where a rank is in one communicator.
struct Position {
  std::string group{};        // the same on all its ranks
  int rank = 0;               // in the group; -1: not known
  int size = 0;               // 0: not known
  std::uint64_t entered = 0;  // number of the last operation that it called, but for transfers
  std::vector<Operation> recent{};   // completed ones, oldest first
  std::vector<Operation> pending{};  // called and not completed
  bool operator==(const Position&) const = default;
};

// What one rank does, judged by itself (own_cause.hpp).
struct OwnCause {
  Cause cause = Cause::unknown;
  std::string reason{};      // "sleeps in main (train.py:12)"
  std::string collective{};  // waits for other ranks in this operation of a library; else ""
  pid_t holder = 0;          // process that it waits for, where one is known
  std::vector<std::string> stack{};  // of the thread that matters
  int holder_rank = -1;              // whose process that is, where it was judged elsewhere
  bool on_gpu = false;               // it runs, but only waits for a GPU
  bool operator==(const OwnCause&) const = default;
};

struct RankEvidence {
  int rank = 0;
  int local_rank = 0;
  bool ended = false;   // well: the others may wait for it
  double quiet = 0;     // seconds since its last progress
  double lifeless = 0;  // seconds since its last sign of life
  bool strong = false;  // has made a step or an operation
  std::optional<std::uint64_t> steps{};
  std::vector<ProcessFacts> processes{};  // the worker first, then what is below it
  std::vector<Position> positions{};
  std::string node{};             // many nodes: where it is
  std::optional<OwnCause> own{};  // judged there: its processes are not here
  bool operator==(const RankEvidence&) const = default;
};

struct Evidence {
  double limit = 0;     // seconds: quiet for longer is too long
  double progress = 0;  // seconds since the last progress of any of the ranks
  int world_size = 0;   // some may not be among `ranks`
  std::vector<RankEvidence> ranks{};
  std::vector<std::string> gaps{};  // what could not be looked at, and what to do
  bool operator==(const Evidence&) const = default;
};

}  // namespace muster::hang
