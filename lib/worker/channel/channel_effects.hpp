// SPDX-License-Identifier: Apache-2.0
// The effects of ChannelCore: what its shell does next. Values.
#pragma once

#include "base/time.hpp"
#include "worker/channel/frames.hpp"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace muster::channel {

using ConnectionId = std::uint64_t;

// Send `text` immediately, together with the worker's page.
struct Greet {
  ConnectionId connection = 0;
  int local_rank = 0;
  std::string text;
  bool operator==(const Greet&) const = default;
};

// unsent() has new bytes.
struct Flush {
  ConnectionId connection = 0;
  bool operator==(const Flush&) const = default;
};

// Do not read from this connection before the time `until`; then call resumed().
struct Hold {
  ConnectionId connection = 0;
  TimePoint until{};
  bool operator==(const Hold&) const = default;
};

// The core has dropped the connection. First send as much of `text` as the kernel accepts without
// blocking.
struct Close {
  ConnectionId connection = 0;
  std::string text;
  bool operator==(const Close&) const = default;
};

// One line to print for the user.
struct Warn {
  std::string text;
  bool operator==(const Warn&) const = default;
};

// A report from a worker for the job's event log.
struct Said {
  int local_rank = 0;
  int rank = 0;
  std::variant<Healthy, Unhealthy, WorkerEvent, Ready> what;
  bool operator==(const Said&) const = default;
};

// A worker that continues to run when other ranks are replaced works in the current epoch.
struct Resumed {
  int local_rank = 0;
  std::uint64_t epoch = 0;
  bool operator==(const Resumed&) const = default;
};

// A worker that survived the replacement of other ranks until now does not survive it any more.
struct Left {
  int local_rank = 0;
  bool operator==(const Left&) const = default;
};

// The library of such a worker has received the news that another rank was lost, or has closed its
// connection. `arrived` as in frames.hpp; this may also be reported before a loss.
struct HeardOfLoss {
  int local_rank = 0;
  bool arrived = false;
  bool operator==(const HeardOfLoss&) const = default;
};

// A worker reports that it has saved its state as of this step.
struct SavedStep {
  int local_rank = 0;
  std::uint64_t step = 0;
  bool operator==(const SavedStep&) const = default;
};

// The process at the other end of this connection may outlive the job, unless it is a worker.
struct Outlives {
  ConnectionId connection = 0;
  bool operator==(const Outlives&) const = default;
};

using Effect = std::
    variant<Greet, Flush, Hold, Close, Warn, Said, Resumed, Left, HeardOfLoss, SavedStep, Outlives>;
using Effects = std::vector<Effect>;

}  // namespace muster::channel
