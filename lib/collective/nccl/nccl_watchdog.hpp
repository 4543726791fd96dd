// SPDX-License-Identifier: Apache-2.0
// NcclWatchdog: a thread of one communicator that looks every 10 ms, while operations are under
// way, whether they have started, ended, failed or are overdue, whether a rank of this host calls
// something else, and whether a peer has died. It only asks: events, NCCL's asynchronous error, the
// peers. Resource type; watch() from one thread.
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
  // Until nothing is under way, or the communicator is dead.
  void drain();

 private:
  void run();
  void look();
  [[nodiscard]] std::shared_ptr<NcclPending> first();

  std::shared_ptr<NcclState> state_;
  Progress* progress_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<NcclPending>> operations_;  // in the order of the stream
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace muster::collective::nccl
