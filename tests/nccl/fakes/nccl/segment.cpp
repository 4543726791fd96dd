// SPDX-License-Identifier: Apache-2.0
#include "nccl/fakes/nccl/segment.hpp"

#include "nccl/fakes/violation.hpp"

#include <ctime>

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace muster::fake {
namespace {

int open_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, sizeof(Meeting)) != 0) {
    violation("the fake cannot make " + path);
  }
  return fd;
}

// Sleeps for at most 1 ms.
void sleep_on(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  const timespec timeout = {.tv_sec = 0, .tv_nsec = 1'000'000};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &timeout, nullptr, 0);
}

struct flock byte_lock(short type, int rank) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

}  // namespace

// A killed program with our process id may have left a file with this name.
void Segment::create(const std::string& path) {
  ::unlink(path.c_str());
  close(open_file(path));
}

Segment::Segment(const std::string& path, int rank, int size)
    : path_(path), rank_(rank), size_(size), fd_(open_file(path)) {
  void* mapped = mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  require(mapped != MAP_FAILED, "the fake cannot map its file");
  meeting_ = static_cast<Meeting*>(mapped);
  auto lock = byte_lock(F_WRLCK, rank);
  if (fcntl(fd_, F_OFD_SETLK, &lock) != 0 || own().joined.exchange(1) != 0) {
    violation("rank " + std::to_string(rank) + " joins twice: is the unique id used again?");
  }
}

Segment::~Segment() {
  munmap(meeting_, sizeof(Meeting));
  close(fd_);
}

bool Segment::peer_gone() {
  for (int rank = 0; rank < size_ && !blind; ++rank) {
    Member& peer = member(rank);
    if (rank == rank_ || peer.joined == 0) {
      continue;
    }
    auto lock = byte_lock(F_WRLCK, rank);
    const bool dead = fcntl(fd_, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
    if (dead || peer.aborted != 0) {
      return peer.left == 0;
    }
  }
  return false;
}

Came Segment::pause() {
  sleep_on(meeting_->wake_seq, meeting_->wake_seq.load());
  return abort ? Came::aborted : peer_gone() ? Came::peer_gone : Came::yes;
}

void Segment::wake() {
  ++meeting_->wake_seq;
  const auto wake_all = [](std::atomic<std::uint32_t>& word) {
    syscall(SYS_futex, &word, FUTEX_WAKE, 1 << 20, nullptr, nullptr, 0);
  };
  wake_all(meeting_->wake_seq);
  for (Gate& gate : meeting_->gates) {
    wake_all(gate.turn);
  }
}

Came Segment::barrier(Where where, std::size_t collective) {
  Gate& gate = meeting_->gates.at(static_cast<std::size_t>(where) + collective);
  const auto turn = gate.turn.load();
  if (gate.arrived.fetch_add(1) + 1 == static_cast<std::uint32_t>(size_)) {
    gate.arrived = 0;
    ++gate.turn;
    wake();
    return Came::yes;
  }
  while (gate.turn == turn) {
    sleep_on(gate.turn, turn);
    if (gate.turn == turn && (abort || peer_gone())) {
      return abort ? Came::aborted : Came::peer_gone;
    }
  }
  return Came::yes;
}

void Segment::unlink() {
  ::unlink(path_.c_str());
}

}  // namespace muster::fake
