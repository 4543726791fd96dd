// SPDX-License-Identifier: Apache-2.0
// UniqueFd: owns one file descriptor. All descriptors that we make are close-on-exec, so that no
// worker inherits what it was not given. Resource type: movable, not copyable.
#pragma once

#include "base/error.hpp"

#include <utility>

namespace muster {

class UniqueFd {
 public:
  UniqueFd() = default;

  explicit UniqueFd(int fd) : fd_(fd) {}

  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

  UniqueFd& operator=(UniqueFd&& other) noexcept;
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;

  ~UniqueFd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }

  [[nodiscard]] explicit operator bool() const { return fd_ >= 0; }

  // Gives the descriptor away: the caller closes it.
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }

  void reset();

 private:
  int fd_ = -1;
};

struct PipeEnds {
  UniqueFd read;
  UniqueFd write;
};

// A close-on-exec pipe, both ends blocking.
[[nodiscard]] Result<PipeEnds> make_pipe();

// Sets O_NONBLOCK on a descriptor that we own alone (the flag belongs to the open description, so
// it would otherwise change under others).
[[nodiscard]] Result<void> set_nonblocking(int fd);

}  // namespace muster
