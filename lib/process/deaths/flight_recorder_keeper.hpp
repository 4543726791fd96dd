// SPDX-License-Identifier: Apache-2.0
// FlightRecorderKeeper: holds the flight recorders of workers that use the collective library
// (base/liveness_page.hpp), so that `musterctl flights PID` can read them after all workers were
// killed. The keeper itself never reads the recorders. Part of LinuxRunner, on its thread.
// Resource.
#pragma once

#include "base/fd.hpp"
#include "process/loop/poller.hpp"

#include <functional>
#include <vector>

#include <sys/types.h>

namespace muster {

// Maximum number of recorders. Each communicator has one recorder, regardless of the number of
// workers. Beyond the limit, the keeper drops the oldest recorder, but never that of the first
// communicator.
inline constexpr std::size_t kMaxFlightRecorders = 16;

class FlightRecorderKeeper final : public Watcher {
 public:
  FlightRecorderKeeper(Poller& poller, std::function<bool(pid_t)> is_worker);
  ~FlightRecorderKeeper() override;
  FlightRecorderKeeper(const FlightRecorderKeeper&) = delete;
  FlightRecorderKeeper& operator=(const FlightRecorderKeeper&) = delete;

  // Called when a worker connects or sends a recorder.
  void on_ready() override;

  // Drops the recorders of the previous workers. Call before new workers are started.
  void forget_all() { kept_.clear(); }

  [[nodiscard]] std::size_t count() const { return kept_.size(); }

  // The descriptors are valid until the next call.
  [[nodiscard]] std::vector<int> descriptors() const;

 private:
  void admit();
  // True if this client has sent its recorder or will not send one.
  [[nodiscard]] bool served(int guest);

  Poller& poller_;
  std::function<bool(pid_t)> is_worker_;
  UniqueFd asked_;
  std::vector<UniqueFd> guests_;  // connections of workers that have not sent anything yet
  std::vector<UniqueFd> kept_;
};

}  // namespace muster
