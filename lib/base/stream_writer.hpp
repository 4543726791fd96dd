// SPDX-License-Identifier: Apache-2.0
// StreamWriter: writes to a stream that others share (our standard output or error) and never
// blocks on its reader. The shell and the workers share the open file description, so O_NONBLOCK
// must not be set on it; a separate description is opened where possible. Used by ConsoleSink, and
// through
// write_within by all code that prints before or after the loop runs: main, the guard, a failed
// check. Resource; any thread, but one at a time.
#pragma once

#include "base/fd.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <string_view>

namespace muster {

// The exit code of a program that succeeded except that its output could not be written: EX_IOERR
// in sysexits.h.
inline constexpr int kOutputLostCode = 74;

class StreamWriter {
 public:
  // `fd` is borrowed and must stay open.
  explicit StreamWriter(int fd);

  // Like write(2); EAGAIN if the stream accepts nothing now. Signals do not cause early returns:
  // EINTR is reported as EAGAIN.
  [[nodiscard]] long write_some(std::string_view bytes) const;

  // Becomes writable (poll, epoll) when there is space again.
  [[nodiscard]] int fd() const { return own_ ? own_.get() : borrowed_; }

  [[nodiscard]] bool is_terminal() const { return terminal_; }

 private:
  enum class Method {
    plain,            // a regular file: never blocks
    own_description,  // reopened, non-blocking
    socket,           // cannot be reopened; each send is non-blocking
    interrupted,      // neither: a timer signal interrupts a blocking write
  };

  int borrowed_;
  UniqueFd own_;
  Method method_ = Method::plain;
  bool terminal_ = false;
};

// Writes as much as `fd` accepts within `timeout`; true if that was everything. If not, errno has
// the
// reason: ETIMEDOUT after the timeout.
bool write_within(int fd, std::string_view text, Duration timeout);

}  // namespace muster
