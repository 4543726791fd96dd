// SPDX-License-Identifier: Apache-2.0
// Segment: a file in shared memory in which the ranks of a fake communicator meet. It contains
// which ranks have arrived, a barrier, space for each rank's data, and mailboxes for pairs. Ranks
// may be threads or processes. Each rank locks the file; the lock ends with the process and so
// reveals its death.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

namespace muster::fake {

inline constexpr int kMostRanks = 8;
inline constexpr std::size_t kChunk = 16 << 10;

struct Member {
  std::atomic<std::uint32_t> joined;
  std::atomic<std::uint32_t> left;  // in order
  std::atomic<std::uint32_t> aborted;
  int version;
  int device;
  int color;
  int key;
  std::array<char, 64> host;
  std::array<char, 128> call;  // current operation of the member
  std::array<unsigned char, kChunk> data;
};

struct Mailbox {
  std::atomic<std::uint32_t> full;
  std::array<unsigned char, kChunk> data;
};

struct Gate {
  std::atomic<std::uint32_t> arrived;
  std::atomic<std::uint32_t> turn;
};

// Ranks meet independently in operations, elsewhere in the life of the communicator, and when they
// connect for the first collective of each kind.
enum class Where { operation, life, connection };

inline constexpr std::size_t kCollectives = 6;

struct Meeting {
  std::array<Gate, 2 + kCollectives> gates;
  std::atomic<std::uint32_t> wake_seq;  // the word on which pauses sleep
  std::array<Member, kMostRanks> members;
  std::array<std::array<Mailbox, kMostRanks>, kMostRanks> mail;  // [from][to]
  // [from][to]: which side has reached the first send and receive: kSender, kReceiver
  std::array<std::array<std::atomic<std::uint32_t>, kMostRanks>, kMostRanks> connected;
};

inline constexpr std::uint32_t kSender = 1;
inline constexpr std::uint32_t kReceiver = 2;

// Why a wait ended.
enum class Came { yes, aborted, peer_gone };

class Segment {
 public:
  // An empty file for ranks to meet in.
  static void create(const std::string& path);

  // Creates the file if necessary.
  Segment(const std::string& path, int rank, int size);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  [[nodiscard]] Meeting& meeting() { return *meeting_; }

  [[nodiscard]] Member& own() { return meeting_->members[static_cast<std::size_t>(rank_)]; }

  [[nodiscard]] Member& member(int rank) {
    return meeting_->members[static_cast<std::size_t>(rank)];
  }

  [[nodiscard]] Mailbox& mail(int from, int to) {
    return meeting_->mail[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
  }

  // Waits until all have arrived. Returns early if our own abort flag is set, or, unless blind, if
  // a peer has died, aborted or left.
  [[nodiscard]] Came barrier(Where where, std::size_t collective = 0);
  // Sleeps for up to 1 ms, or until wake is called; then returns whether to continue.
  [[nodiscard]] Came pause();
  void wake();
  // Removes the name, which is not needed after all ranks have opened the file.
  void unlink();

  std::atomic<bool> abort{false};
  bool blind = false;

 private:
  [[nodiscard]] bool peer_gone();

  std::string path_;
  int rank_;
  int size_;
  int fd_ = -1;
  Meeting* meeting_ = nullptr;
};

}  // namespace muster::fake
