// SPDX-License-Identifier: Apache-2.0
// SignalLink: the agent's end of its link to the guard. The guard receives the launcher's signals
// and sends one SignalNotice for each; it closes the link when it dies. The agent sends the pids of
// processes that the guard must not kill at the end of the job. Owned by the agent; lives
// on its loop. Resource.
#pragma once

#include "base/fd.hpp"
#include "process/guard/guard.hpp"

#include <asio/posix/stream_descriptor.hpp>

#include <array>
#include <cstddef>
#include <functional>
#include <utility>

#include <sys/types.h>

namespace muster {

class SignalLink {
 public:
  SignalLink(asio::io_context& loop, GuardLink link)
      : link_(loop, link.signals.release()), outlives_(std::move(link.outlives)) {}

  // Readable when a signal has arrived.
  [[nodiscard]] int fd() { return link_.native_handle(); }

  // Calls `take` for each signal, and `lost` once, when the guard has died.
  void start(std::function<void(const SignalNotice&)> take, std::function<void()> lost) {
    take_ = std::move(take);
    lost_ = std::move(lost);
    read();
  }

  // This process, which is no worker, may outlive the job.
  void spare_at_end(pid_t pid) const;

 private:
  void read();
  void take_notices(std::size_t bytes);

  asio::posix::stream_descriptor link_;
  UniqueFd outlives_;
  std::function<void(const SignalNotice&)> take_;
  std::function<void()> lost_;
  std::array<char, 64 * sizeof(SignalNotice)> notices_{};
  std::size_t noticed_ = 0;  // number of bytes received so far of an incomplete notice
};

}  // namespace muster
