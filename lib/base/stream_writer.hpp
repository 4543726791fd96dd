// SPDX-License-Identifier: Apache-2.0
// StreamWriter: writes to a stream that others hold too (our standard output or error) and never
// waits for its reader. The shell and the workers share the open description, so O_NONBLOCK must
// not be set on it: we open a description of our own where the system lets us. Used by ConsoleSink,
// and through write_within by everything that prints before or after the loop runs: main, the
// guard, a failed check. Resource; any thread, but one at a time.
#pragma once

#include "base/fd.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <string_view>

namespace muster {

// The exit code of a program whose output could not be written although all else went well: as
// EX_IOERR of sysexits.h.
inline constexpr int kOutputLostCode = 74;

class StreamWriter {
 public:
  // `fd` is borrowed and must stay open.
  explicit StreamWriter(int fd);

  // As write(2); EAGAIN where the stream takes nothing now. Signals never end it early: EINTR is
  // returned as EAGAIN.
  [[nodiscard]] long write_some(std::string_view bytes) const;

  // Becomes writable (poll, epoll) when there is room again.
  [[nodiscard]] int fd() const { return own_ ? own_.get() : borrowed_; }

  [[nodiscard]] bool is_terminal() const { return terminal_; }

 private:
  enum class Method {
    plain,            // a regular file: never blocks
    own_description,  // opened again by us, non-blocking
    socket,           // cannot be opened again, but each send says that it must not block
    interrupted,      // neither: a timer's signal ends a write that blocks
  };

  int borrowed_;
  UniqueFd own_;
  Method method_ = Method::plain;
  bool terminal_ = false;
};

// Writes as much as `fd` takes within `timeout`; whether that was all. If not, errno says why:
// ETIMEDOUT after the timeout.
bool write_within(int fd, std::string_view text, Duration timeout);

}  // namespace muster
