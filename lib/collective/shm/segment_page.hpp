// SPDX-License-Identifier: Apache-2.0
// What lies where in the memory that the ranks of one host share: a header, one Member for each
// rank, its posts, its staging. All starts as zeros. Values that cross processes: no pointers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace muster::collective {

inline constexpr std::size_t kLine = 64;
inline constexpr std::size_t kFaultText = 704;
inline constexpr std::uint32_t kFaultWritten = 1;
inline constexpr std::uint32_t kFaultWriting = 2;

struct SegmentHeader {
  // Futex of the ranks that sleep; counts up when something has changed and somebody sleeps.
  alignas(kLine) std::atomic<std::uint32_t> wake_seq;
  std::atomic<std::uint32_t> sleepers;
  // Why the communicator is dead. 0: it lives; kFaultWritten; kFaultWriting + the writer's place.
  alignas(kLine) std::atomic<std::uint32_t> fault;
  std::uint32_t code;
  std::int32_t rank;
  std::int32_t native;
  std::uint64_t seq;
  char text[kFaultText];
};

// States of a Member.
inline constexpr std::uint32_t kAbsent = 0;
inline constexpr std::uint32_t kHere = 1;
inline constexpr std::uint32_t kLeft = 2;

struct Member {
  // The id of the thread that stands for the rank, with kHasWaiters; the kernel puts kOwnerDied
  // there when it dies, before it frees the memory of the process.
  alignas(kLine) std::atomic<std::uint32_t> life;
  std::atomic<std::uint32_t> state;  // kAbsent, kHere, kLeft
  std::int32_t rank;                 // in the communicator
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
  std::uint32_t signature;  // kind, op, dtype
  std::int32_t root;
  std::uint64_t count;
  double scale;
};

static_assert(sizeof(Post) == 32);

// From one rank to another: a ring of pieces. Each slot begins with a PieceHead.
struct Channel {
  alignas(kLine) std::atomic<std::uint64_t> written;  // pieces, by the sender
  alignas(kLine) std::atomic<std::uint64_t> taken;    // by the receiver
};

struct PieceHead {
  std::uint64_t count;  // elements of the whole message
  std::uint32_t dtype;
  std::uint32_t bytes;  // of this piece
};

inline constexpr std::size_t kChannelSlots = 4;

struct SegmentLayout {
  std::size_t members = 0;
  std::size_t post_data = 0;  // bytes that may follow a post
  std::size_t staging = 0;    // bytes per member
  std::size_t piece = 0;      // bytes in a slot of a channel, with its head

  [[nodiscard]] std::size_t member_at(std::size_t index) const {
    return round(sizeof(SegmentHeader)) + index * round(sizeof(Member));
  }

  [[nodiscard]] std::size_t post_at(std::size_t index, std::uint64_t seq) const {
    return member_at(members) + (index * 2 + seq % 2) * post_bytes();
  }

  [[nodiscard]] std::size_t staging_at(std::size_t index) const {
    return pages(member_at(members) + members * 2 * post_bytes()) + index * pages(staging);
  }

  [[nodiscard]] std::size_t channel_at(std::size_t from, std::size_t to) const {
    return staging_at(members) + (from * members + to) * channel_bytes();
  }

  // What every operation uses; the channels behind it take memory when they are used.
  [[nodiscard]] std::size_t reserved() const { return staging_at(members); }

  [[nodiscard]] std::size_t total() const { return pages(channel_at(members, 0)); }

 private:
  // Two lines apart: processors fetch lines in pairs.
  static std::size_t round(std::size_t bytes) { return (bytes + 127) / 128 * 128; }

  static std::size_t pages(std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

  [[nodiscard]] std::size_t channel_bytes() const {
    return sizeof(Channel) + kChannelSlots * piece;
  }

  [[nodiscard]] std::size_t post_bytes() const { return round(sizeof(Post) + post_data); }
};

}  // namespace muster::collective
