// SPDX-License-Identifier: Apache-2.0
// Evidence about a job that makes no progress: for each rank its processes as /proc shows them, its
// stacks, and its position in its collective operations. Gathered by hang_watch, judged by judge.
// Value types; the code that gathers them bounds their size.
#pragma once

#include "hang/verdict.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace muster::hang {

// What a thread waits for in the kernel, according to its system call.
enum class WaitKind {
  nothing,  // it runs, or the call is not readable
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
  std::string call{};  // "read"; empty: unknown
  std::string path{};  // of the descriptor or file; "pipe:[123]" if it has none
  int fd = -1;
  pid_t holder = 0;  // holder of a file lock, or a peer on the same pipe; 0: unknown
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
  std::string what{};     // "all_reduce sum f32[25]": must be the same on all ranks
  int peer = -1;          // of a send or recv: rank of the other side in the group
  std::uint64_t age = 0;  // ns since it was called
  bool operator==(const Operation&) const = default;
};

// A rank's position in one communicator.
struct Position {
  std::string group{};               // the same on all its ranks
  int rank = 0;                      // in the group; -1: unknown
  int size = 0;                      // 0: unknown
  std::uint64_t entered = 0;         // number of the last operation called, excluding transfers
  std::vector<Operation> recent{};   // completed ones, oldest first
  std::vector<Operation> pending{};  // called and not completed
  bool operator==(const Position&) const = default;
};

// What one rank is doing, judged in isolation (own_cause.hpp).
struct OwnCause {
  Cause cause = Cause::unknown;
  std::string reason{};      // "sleeping in main (train.py:12)"
  std::string collective{};  // the library operation in which it waits for other ranks; else ""
  pid_t holder = 0;          // process that it waits for; 0: unknown
  std::vector<std::string> stack{};  // of the thread that matters
  int holder_rank = -1;              // the rank of that process, if judged on another node
  bool on_gpu = false;               // it spins only to wait for a GPU
  bool operator==(const OwnCause&) const = default;
};

struct RankEvidence {
  int rank = 0;
  int local_rank = 0;
  bool ended = false;   // exited successfully; the others may still wait for it
  double quiet = 0;     // seconds since its last progress
  double lifeless = 0;  // seconds since its last sign of life
  bool strong = false;  // has made a step or an operation
  std::optional<std::uint64_t> steps{};
  std::vector<ProcessFacts> processes{};  // the worker first, then its descendants
  std::vector<Position> positions{};
  std::string node{};             // many nodes: its node
  std::optional<OwnCause> own{};  // judged on its node; its processes are not in here
  bool operator==(const RankEvidence&) const = default;
};

struct Evidence {
  double limit = 0;     // seconds: maximum time without progress
  double progress = 0;  // seconds since the last progress of any of the ranks
  int world_size = 0;   // some may not be among `ranks`
  std::vector<RankEvidence> ranks{};
  std::vector<std::string> gaps{};  // what could not be inspected, and the remedy
  bool operator==(const Evidence&) const = default;
};

}  // namespace muster::hang
