// SPDX-License-Identifier: Apache-2.0
// AgentConnection: a worker's end of the channel to its agent. Only worker.cpp uses it. Resource;
// one thread at a time, except that another thread may call send() and shut_down() during next().
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"
#include "worker/channel/frames.hpp"
#include "worker/channel/progress_page.hpp"

#include <optional>
#include <string_view>

namespace muster::worker {

// Timeout for the agent's first frame. The agent normally sends it within microseconds.
inline constexpr Duration kAnswerTimeout = std::chrono::seconds(5);

class AgentConnection {
 public:
  // Connects to the socket with this name and waits for the agent's first frame. Errors:
  // unreachable, not_possible (another user owns the socket), closed (the agent refused this
  // process).
  [[nodiscard]] static Result<AgentConnection> open(std::string_view name);

  // Never blocks. Drops the frame and returns false if the agent has not read earlier frames.
  // Error: closed.
  [[nodiscard]] Result<bool> send(const channel::WorkerFrame& frame);

  // Empty on timeout. Errors: closed, protocol.
  [[nodiscard]] Result<std::optional<channel::AgentFrame>> next(Duration timeout);

  // Makes next() fail with `closed`, also in another thread.
  void shut_down();

  // Transfers ownership of the page; empty if the agent did not send one.
  [[nodiscard]] std::optional<channel::ProgressPage> take_page() {
    return std::exchange(page_, std::nullopt);
  }

 private:
  explicit AgentConnection(UniqueFd fd) : fd_(std::move(fd)) {}

  [[nodiscard]] Result<void> receive_hello();
  [[nodiscard]] Result<std::optional<channel::AgentFrame>> take_frame();

  UniqueFd fd_;
  channel::LineReader lines_;
  std::optional<channel::ProgressPage> page_;
};

}  // namespace muster::worker
