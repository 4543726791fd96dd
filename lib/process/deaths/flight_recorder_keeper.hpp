// SPDX-License-Identifier: Apache-2.0
// FlightRecorderKeeper: holds what workers that use the collective library have given us of their
// flight recorders (base/liveness_page.hpp), so that `musterctl flights PID` can read them after
// every worker was killed. We never look into it. Bounded; part of LinuxRunner, on its thread.
// Resource.
#pragma once

#include "base/fd.hpp"
#include "process/loop/poller.hpp"

#include <functional>
#include <vector>

#include <sys/types.h>

namespace muster {

// For the first communicator and the newest others; one for each, whatever the number of workers.
inline constexpr std::size_t kMaxFlightRecorders = 16;

class FlightRecorderKeeper final : public Watcher {
 public:
  FlightRecorderKeeper(Poller& poller, std::function<bool(pid_t)> is_worker);
  ~FlightRecorderKeeper() override;
  FlightRecorderKeeper(const FlightRecorderKeeper&) = delete;
  FlightRecorderKeeper& operator=(const FlightRecorderKeeper&) = delete;

  // Somebody comes, or sends one.
  void on_ready() override;

  // Of workers that have ended; new ones are started.
  void forget_all() { kept_.clear(); }

  [[nodiscard]] std::size_t count() const { return kept_.size(); }

  // Open as long as nothing else is called.
  [[nodiscard]] std::vector<int> descriptors() const;

 private:
  void admit();
  // Whether it has said what it came for, or will not.
  [[nodiscard]] bool served(int guest);

  Poller& poller_;
  std::function<bool(pid_t)> is_worker_;
  UniqueFd asked_;
  std::vector<UniqueFd> guests_;  // workers that have not sent anything yet
  std::vector<UniqueFd> kept_;
};

}  // namespace muster
