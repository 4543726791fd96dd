// SPDX-License-Identifier: Apache-2.0
// NcclWatchdog: a communicator's thread. While operations are pending, it checks every 10 ms
// whether they have started, completed, failed or become overdue, whether a rank on this host
// called a different operation, and whether a peer has died. It only queries events, NCCL's
// asynchronous error and the peers. Resource type; one thread calls watch().
#pragma once

#include "collective/nccl/nccl_pending.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace muster::collective::nccl {

class NcclWatchdog {
 public:
  static constexpr Duration kPeriod = std::chrono::milliseconds(10);

  NcclWatchdog(std::shared_ptr<NcclState> state, Progress* progress);
  ~NcclWatchdog();
  NcclWatchdog(const NcclWatchdog&) = delete;
  NcclWatchdog& operator=(const NcclWatchdog&) = delete;

  void watch(std::shared_ptr<NcclPending> operation);
  // Waits until no operation is pending or the communicator is dead.
  void drain();

 private:
  void run();
  void look();
  [[nodiscard]] std::shared_ptr<NcclPending> first();

  std::shared_ptr<NcclState> state_;
  Progress* progress_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<NcclPending>> operations_;  // in stream order
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace muster::collective::nccl
