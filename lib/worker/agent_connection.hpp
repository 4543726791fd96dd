// SPDX-License-Identifier: Apache-2.0
// AgentConnection: a worker's end of the channel to its agent. Used by worker.cpp only. Resource;
// one thread at a time.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"
#include "worker/channel/frames.hpp"
#include "worker/channel/progress_page.hpp"

#include <optional>
#include <string_view>

namespace muster::worker {

// For the agent's first answer, which comes in microseconds unless it is stopped.
inline constexpr Duration kAnswerTimeout = std::chrono::seconds(5);

class AgentConnection {
 public:
  // Connects to the socket of this name and waits for its first frame. Errors: unreachable,
  // not_possible (somebody else's socket), closed (it refuses this process).
  [[nodiscard]] static Result<AgentConnection> open(std::string_view name);

  // Never waits. False: the agent has not read what came before, and this frame is left out.
  // Error: closed.
  [[nodiscard]] Result<bool> send(const channel::WorkerFrame& frame);

  // None: there is none within that time. Errors: closed, protocol.
  [[nodiscard]] Result<std::optional<channel::AgentFrame>> next(Duration timeout);

  // Taken away from the connection; none where the agent gave none.
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
