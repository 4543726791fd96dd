// SPDX-License-Identifier: Apache-2.0
#include "fakes/nccl/segment.hpp"

#include "fakes/violation.hpp"

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

struct flock byte_lock(short type, int rank) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

}  // namespace

void Segment::create(const std::string& path) {
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
  const timespec patience = {.tv_sec = 0, .tv_nsec = 1'000'000};
  syscall(SYS_futex, &meeting_->turn, FUTEX_WAIT, meeting_->turn.load(), &patience, nullptr, 0);
  return abort ? Came::aborted : peer_gone() ? Came::peer_gone : Came::yes;
}

void Segment::wake() {
  syscall(SYS_futex, &meeting_->turn, FUTEX_WAKE, 1 << 20, nullptr, nullptr, 0);
}

Came Segment::barrier() {
  const auto turn = meeting_->turn.load();
  if (meeting_->arrived.fetch_add(1) + 1 == static_cast<std::uint32_t>(size_)) {
    meeting_->arrived = 0;
    ++meeting_->turn;
    wake();
    return Came::yes;
  }
  while (meeting_->turn == turn) {
    const timespec patience = {.tv_sec = 0, .tv_nsec = 1'000'000};
    syscall(SYS_futex, &meeting_->turn, FUTEX_WAIT, turn, &patience, nullptr, 0);
    if (meeting_->turn == turn && (abort || peer_gone())) {
      return abort ? Came::aborted : Came::peer_gone;
    }
  }
  return Came::yes;
}

void Segment::unlink() {
  ::unlink(path_.c_str());
}

}  // namespace muster::fake
