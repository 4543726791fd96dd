// SPDX-License-Identifier: Apache-2.0
// What lies where in the memory that the ranks of one host share: a header, one Member for each
// rank, its posts, its staging. All starts as zeros. Values that cross processes: no pointers but
// RobustNode's, which only its own process's kernel reads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace muster::collective {

inline constexpr std::uint32_t kLayoutVersion = 1;
inline constexpr std::size_t kLine = 64;
inline constexpr std::size_t kFaultText = 704;

struct SegmentHeader {
  // What sleepers sleep on; counts up when something has changed and somebody sleeps.
  alignas(kLine) std::atomic<std::uint32_t> bell;
  std::atomic<std::uint32_t> sleepers;
  // Why the communicator is dead. 0: it lives; 1: being written; 2: written.
  alignas(kLine) std::atomic<std::uint32_t> fault;
  std::uint32_t code;
  std::int32_t rank;
  std::int32_t native;
  std::uint64_t seq;
  char text[kFaultText];
};

// An entry of the kernel's robust list (linux/futex.h: struct robust_list).
struct RobustNode {
  RobustNode* next;
};

enum MemberState : std::uint32_t { kAbsent = 0, kHere = 1, kLeft = 2 };

struct Member {
  // The id of the thread that stands for the rank, with kHasWaiters; the kernel puts kOwnerDied
  // there when it dies, before it frees the memory of the process.
  alignas(kLine) std::atomic<std::uint32_t> life;
  std::atomic<std::uint32_t> state;  // MemberState
  RobustNode node;
  std::int32_t rank;  // in the communicator
  std::int32_t pid;
  // Steps that this rank has done, over all operations: pieces put into its staging, slices
  // combined, pieces of others taken; and the number of the last operation that is complete.
  alignas(kLine) std::atomic<std::uint64_t> filled;
  std::atomic<std::uint64_t> combined;
  std::atomic<std::uint64_t> taken;
  std::atomic<std::uint64_t> completed;
};

// What a rank calls, for the others to compare with what they call; small data follow at once, so
// that all of it is one cache line. Each rank has two, for operations of odd and even numbers:
// nobody can be further ahead than one operation.
struct alignas(32) Post {
  std::atomic<std::uint64_t> seq;
  std::uint32_t what;  // kind, op, dtype
  std::int32_t root;
  std::uint64_t count;
  double scale;
};

static_assert(sizeof(Post) == 32);

struct SegmentLayout {
  std::size_t members = 0;
  std::size_t post_data = 0;  // bytes that may follow a post
  std::size_t staging = 0;    // bytes per member

  [[nodiscard]] std::size_t member_at(std::size_t index) const {
    return round(sizeof(SegmentHeader)) + index * round(sizeof(Member));
  }

  [[nodiscard]] std::size_t post_at(std::size_t index, std::uint64_t seq) const {
    return member_at(members) + (index * 2 + seq % 2) * post_bytes();
  }

  [[nodiscard]] std::size_t staging_at(std::size_t index) const {
    return pages(member_at(members) + members * 2 * post_bytes()) + index * pages(staging);
  }

  [[nodiscard]] std::size_t total() const { return staging_at(members); }

 private:
  // Two lines apart: processors fetch lines in pairs.
  static std::size_t round(std::size_t bytes) { return (bytes + 127) / 128 * 128; }

  static std::size_t pages(std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

  [[nodiscard]] std::size_t post_bytes() const { return round(sizeof(Post) + post_data); }
};

}  // namespace muster::collective
