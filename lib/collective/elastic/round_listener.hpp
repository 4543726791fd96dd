// SPDX-License-Identifier: Apache-2.0
// RoundListener: receives the job's rounds and failures in a thread, and aborts the communicator of
// a round as soon as one of its ranks is lost. Resource. The thread that trains calls the methods;
// any thread may call failure().
#pragma once

#include "base/time.hpp"
#include "collective/communicator.hpp"
#include "collective/elastic/round_tracker.hpp"
#include "collective/transport/peer_watch.hpp"
#include "worker/worker.hpp"

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace muster::collective::elastic {

class RoundListener final : public PeerWatch {
 public:
  // Subscribes to the launcher's news. Error: system (muster rejects this process).
  [[nodiscard]] static Result<std::unique_ptr<RoundListener>> open();
  ~RoundListener() override;

  // Waits for a round with an epoch after this one. Empty if the launcher closed the connection.
  [[nodiscard]] std::optional<worker::Round> wait_for_round(std::optional<std::uint64_t> after);

  // Waits up to `timeout` for the loss of a rank of this epoch. False if no loss was reported.
  [[nodiscard]] bool wait_for_loss(std::uint64_t epoch, Duration timeout);

  // From now on, failure() reports the loss of a rank of this epoch. Tells the launcher that this
  // rank waits until all ranks have the state.
  void enter(std::uint64_t epoch);

  // Until unguard(), aborts this communicator when a rank of the entered epoch is lost.
  void guard(Communicator& communicator);
  // After this call, the thread does not use the communicator any more.
  void unguard();

  // Reports that this rank has the state and works in this epoch. Error: system.
  [[nodiscard]] Result<void> ready(std::uint64_t epoch);

  // Reports that this rank has left the function, so it cannot continue after a loss.
  void finish() { rounds_.finish(); }

  [[nodiscard]] std::optional<Error> failure() const override;

  // The launcher learns of failures from the exits of processes.
  void report(const Error& /*error*/) override {}

 private:
  explicit RoundListener(worker::Rounds rounds);

  void listen();
  // The caller holds the mutex.
  void abort_if_lost();

  worker::Rounds rounds_;
  mutable std::mutex mutex_;  // also keeps an abort out of the next epoch
  std::condition_variable changed_;
  RoundTracker tracker_;
  std::uint64_t epoch_ = 0;
  Communicator* guarded_ = nullptr;
  bool is_closed_ = false;
  std::thread thread_;
};

}  // namespace muster::collective::elastic
