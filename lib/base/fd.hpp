// SPDX-License-Identifier: Apache-2.0
// UniqueFd: owns one file descriptor. All descriptors in muster are close-on-exec, so workers
// inherit only the intended ones. Resource type: movable, not copyable.
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

  // Releases ownership: the caller closes the descriptor.
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }

  void reset();

 private:
  int fd_ = -1;
};

struct PipeEnds {
  UniqueFd read;
  UniqueFd write;
};

// Creates a close-on-exec pipe; both ends are blocking.
[[nodiscard]] Result<PipeEnds> make_pipe();

// Sets O_NONBLOCK. The flag belongs to the open file description and affects all of its users, so
// the description must not be shared.
[[nodiscard]] Result<void> set_nonblocking(int fd);

}  // namespace muster
