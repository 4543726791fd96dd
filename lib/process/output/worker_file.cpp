// SPDX-License-Identifier: Apache-2.0
#include "process/output/worker_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

namespace muster {
namespace {

// How many bytes before the read offset are compared at the next read. They usually differ if the
// file was truncated and has since grown past that offset.
constexpr std::size_t kMarkBytes = 64;

// O_NONBLOCK because the path may refer to a pipe by now.
constexpr int kReadFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

constexpr long kMarkDiffers = -2;

}  // namespace

WorkerFile::WorkerFile(std::string path, int written, int scarce_from) : path_(std::move(path)) {
  struct stat facts {};

  if (::fstat(written, &facts) == 0) {
    device_ = facts.st_dev;
    inode_ = facts.st_ino;
  }
  sparing_ = !open() || fd() >= scarce_from;
}

void WorkerFile::set_writer(pid_t pid, int stream) {
  writer_ = pid;
  stream_ = stream;
}

// The path may refer to another file by now.
UniqueFd WorkerFile::open_same(const std::string& path) const {
  UniqueFd fd(::open(path.c_str(), kReadFlags));

  struct stat facts {};

  if (fd && (::fstat(fd.get(), &facts) != 0 || facts.st_dev != device_ || facts.st_ino != inode_)) {
    fd.reset();
    errno = ESTALE;
  }
  return fd;
}

bool WorkerFile::open() {
  if (!fd_) {
    fd_ = open_same(path_);
  }
  if (!fd_ && writer_ != 0 && errno != EMFILE) {
    fd_ = open_same("/proc/" + std::to_string(writer_) + "/fd/" + std::to_string(stream_));
  }
  return static_cast<bool>(fd_);
}

void WorkerFile::close_if_sparing() {
  if (sparing_) {
    fd_.reset();
  }
}

void WorkerFile::note_truncated(off_t size_before) {
  truncated_ += static_cast<std::uint64_t>(size_before);
  lost_ += static_cast<std::uint64_t>(std::max<off_t>(0, size_before - offset_));
  offset_ = 0;
  mark_.clear();
}

void WorkerFile::look() {
  struct stat facts {};

  if (::fstat(fd(), &facts) != 0) {
    return;
  }
  if (facts.st_size < size_) {
    note_truncated(size_);
  }
  size_ = facts.st_size;
}

long WorkerFile::read_behind_mark(char* buffer, std::size_t limit) {
  std::array<char, kMarkBytes> seen{};
  const std::array<iovec, 2> parts{{{seen.data(), mark_.size()}, {buffer, limit}}};
  const auto marked = static_cast<long>(mark_.size());
  const auto count = ::preadv(fd(), parts.data(), parts.size(), offset_ - marked);
  if (count < 0) {
    return -1;
  }
  if (count < marked || std::string_view(seen.data(), mark_.size()) != mark_) {
    return kMarkDiffers;
  }
  return count - marked;
}

void WorkerFile::keep_mark(std::string_view bytes) {
  mark_.append(bytes.substr(bytes.size() - std::min(bytes.size(), kMarkBytes)));
  mark_.erase(0, mark_.size() - std::min(mark_.size(), kMarkBytes));
}

long WorkerFile::read(char* buffer, std::size_t limit) {
  const off_t size_before = size_;
  look();
  auto count = read_behind_mark(buffer, limit);
  if (count == kMarkDiffers) {
    note_truncated(size_before);
    count = read_behind_mark(buffer, limit);
  }
  if (count > 0) {
    keep_mark(std::string_view(buffer, static_cast<std::size_t>(count)));
    offset_ += count;
    size_ = std::max(size_, offset_);
  }
  return count;
}

std::size_t WorkerFile::available() {
  look();
  return static_cast<std::size_t>(std::max<off_t>(0, size_ - offset_));
}

void WorkerFile::skip(std::size_t bytes) {
  offset_ += static_cast<off_t>(bytes);
  mark_.clear();
}

std::uint64_t WorkerFile::written() {
  if (open()) {
    look();
    close_if_sparing();
  }
  return truncated_ + static_cast<std::uint64_t>(size_);
}

std::uint64_t WorkerFile::take_lost() {
  return std::exchange(lost_, 0);
}

std::string WorkerFile::last_bytes(std::size_t bytes_max) {
  std::string bytes;
  if (open()) {
    look();
    const auto wanted = std::min<off_t>(size_, static_cast<off_t>(bytes_max));
    bytes.resize(static_cast<std::size_t>(wanted));
    const auto count = ::pread(fd(), bytes.data(), bytes.size(), size_ - wanted);
    bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    close_if_sparing();
  }
  return bytes;
}

}  // namespace muster
