// SPDX-License-Identifier: Apache-2.0
// Layout of the memory shared by the ranks on one host: a header, then each rank's Member, posts
// and staging memory. Initially all zeros. Contains no pointers, because several processes map it.
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
  // Futex for sleeping ranks; incremented after a change if any rank sleeps.
  alignas(kLine) std::atomic<std::uint32_t> wake_seq;
  std::atomic<std::uint32_t> sleepers;
  // 0: alive; kFaultWritten: the reason below is complete; kFaultWriting + index: that rank is
  // writing it.
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
  // Tid of the rank's liveness thread, plus kHasWaiters. When the thread dies, the kernel adds
  // kOwnerDied before it frees the process's memory.
  alignas(kLine) std::atomic<std::uint32_t> life;
  std::atomic<std::uint32_t> state;  // kAbsent, kHere, kLeft
  std::int32_t rank;                 // rank in the communicator
  std::int32_t pid;
  // Counts the steps completed by this rank, over all operations: pieces copied into its staging
  // memory, slices combined, and pieces taken from others. Also holds the number of the last
  // completed operation.
  alignas(kLine) std::atomic<std::uint64_t> filled;
  std::atomic<std::uint64_t> combined;
  std::atomic<std::uint64_t> taken;
  std::atomic<std::uint64_t> completed;
};

// A rank's call, which other ranks compare with their own. Small payloads follow immediately, so
// that they share this cache line. Each rank has two posts, for odd and even operation numbers,
// because no rank can be more than one operation ahead.
struct alignas(32) Post {
  std::atomic<std::uint64_t> seq;
  std::uint32_t signature;  // kind, op, dtype
  std::int32_t root;
  std::uint64_t count;
  double scale;
};

static_assert(sizeof(Post) == 32);

// A channel from one rank to another: a ring of pieces. Each slot starts with a PieceHead.
struct Channel {
  alignas(kLine) std::atomic<std::uint64_t> written;  // number of pieces written by the sender
  alignas(kLine) std::atomic<std::uint64_t> taken;    // number of pieces read by the receiver
};

struct PieceHead {
  std::uint64_t count;  // elements of the whole message
  std::uint32_t dtype;
  std::uint32_t bytes;  // of this piece
};

inline constexpr std::size_t kChannelSlots = 4;

struct SegmentLayout {
  std::size_t members = 0;
  std::size_t post_data = 0;  // maximum bytes that follow a post
  std::size_t staging = 0;    // bytes per member
  std::size_t piece = 0;      // bytes per channel slot, including its head

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

  // Memory that every operation uses. The channels that follow are allocated on first use.
  [[nodiscard]] std::size_t reserved() const { return staging_at(members); }

  [[nodiscard]] std::size_t total() const { return pages(channel_at(members, 0)); }

 private:
  // Two cache lines apart, because CPUs prefetch lines in pairs.
  static std::size_t round(std::size_t bytes) { return (bytes + 127) / 128 * 128; }

  static std::size_t pages(std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

  [[nodiscard]] std::size_t channel_bytes() const {
    return sizeof(Channel) + kChannelSlots * piece;
  }

  [[nodiscard]] std::size_t post_bytes() const { return round(sizeof(Post) + post_data); }
};

}  // namespace muster::collective
