// SPDX-License-Identifier: Apache-2.0
// FileTimers: the expiration timers that workers have set with torch.distributed.elastic.timer.
// Receives the bytes that PyTorch's FileTimerClient writes to the named pipe, and determines which
// timers have expired. Times are Unix seconds, as in the requests. Pure; used by TimerWatch.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace muster {

// A timer, as requested by a process. A negative time of expiry releases the timer.
struct FileTimer {
  pid_t pid = 0;
  std::string scope;   // the timer's name; by default "FILE#LINE" of the caller
  double asked = 0;    // when the request arrived
  double expires = 0;  // when the timer expires
  int signal = 0;      // sent to the process when the timer expires; none if not positive
  bool operator==(const FileTimer&) const = default;
};

// Parses one line: {"version": 1, "pid": 7, "scope_id": "s", "expiration_time": 9.5, "signal": 9}.
// None if the line is no valid request.
[[nodiscard]] std::optional<FileTimer> parse_file_timer(std::string_view line);

class FileTimers {
 public:
  // A longer line is no valid request: PyTorch writes at most PIPE_BUF bytes and a newline.
  static constexpr std::size_t kLineMax = 4097;
  // Limits memory. Further timers are dropped.
  static constexpr std::size_t kTimersMax = 65536;

  // Handles bytes from the pipe. They may begin or end within a line. Returns the number of
  // requests that were dropped.
  std::size_t take(std::string_view bytes, double now);

  // Removes all timers of a process.
  void forget(pid_t pid);
  void clear();

  // The earliest time of expiry. None if there is no timer.
  [[nodiscard]] std::optional<double> next() const;

  // For each process with expired timers: the first one that has a signal, else the first one.
  // Removes all timers of these processes, as PyTorch's server does.
  [[nodiscard]] std::vector<FileTimer> expire(double now);

 private:
  [[nodiscard]] bool handle(std::string_view line, double now);

  std::map<std::pair<pid_t, std::string>, FileTimer> timers_;
  std::string begun_;  // the bytes received so far of an incomplete line
};

}  // namespace muster
