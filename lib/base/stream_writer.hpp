// SPDX-License-Identifier: Apache-2.0
// StreamWriter: writes to a stream that other processes share (our standard output or error) and
// never blocks on its reader. The shell and the workers share the open file description, so
// O_NONBLOCK must not be set on it. Where possible, StreamWriter opens a separate description.
// ConsoleSink uses it. Code that prints while no loop runs (main, the guard, a failed check) uses
// it through write_within. Resource; used by one thread at a time.
#pragma once

#include "base/fd.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <string_view>

namespace muster {

// The exit code of a program that succeeded but could not write its output: EX_IOERR from
// sysexits.h.
inline constexpr int kOutputLostCode = 74;

class StreamWriter {
 public:
  // `fd` is not owned and must stay open.
  explicit StreamWriter(int fd);

  // Like write(2). Fails with EAGAIN if the stream accepts nothing now. If a signal interrupts the
  // call, EINTR is reported as EAGAIN.
  [[nodiscard]] long write_some(std::string_view bytes) const;

  // This descriptor becomes writable (poll, epoll) when there is space again.
  [[nodiscard]] int fd() const { return own_ ? own_.get() : borrowed_; }

  [[nodiscard]] bool is_terminal() const { return terminal_; }

 private:
  enum class Method {
    plain,            // a regular file: never blocks
    own_description,  // the stream, reopened with O_NONBLOCK
    socket,           // cannot be reopened; each send is non-blocking
    interrupted,      // none of the above: a timer signal interrupts a blocking write
  };

  int borrowed_;
  UniqueFd own_;
  Method method_ = Method::plain;
  bool terminal_ = false;
};

// Writes as much as `fd` accepts within `timeout`. True if it wrote everything; otherwise errno
// contains the reason (ETIMEDOUT after a timeout).
bool write_within(int fd, std::string_view text, Duration timeout);

}  // namespace muster
