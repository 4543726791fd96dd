// SPDX-License-Identifier: Apache-2.0
// The communicator's threads for host operations with OpOptions::async. One thread runs collective
// operations in order; the other advances all sends and receives. Each thread starts when the
// first operation is added to its queue. Resource types; one thread calls add() and drain().
#pragma once

#include "collective/communicator/caller_clock.hpp"
#include "collective/recorder/flight_recorder.hpp"
#include "collective/transport/host_transport.hpp"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace muster::collective {

// An operation that a queue thread completes with a result.
class HostPending final : public Pending {
 public:
  [[nodiscard]] bool done() const override { return done_.load(std::memory_order_acquire); }

  [[nodiscard]] Result<void> wait(Duration timeout) override;

  // Host operations have no stream, so block until the operation completes.
  [[nodiscard]] Result<void> wait_stream(void*) override { return wait(Duration::zero()); }

  // Records which threads are waiting: the thread that started the operation (and since when), or
  // a helper thread. A helper completes PyTorch futures, and the starting thread may or may not
  // wait for those futures.
  struct Awaited {
    std::optional<TimePoint> by_caller{};
    bool by_helper = false;
  };

  Awaited finish(Result<void> result);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> done_{false};
  Result<void> result_;
  Awaited awaited_;
  const std::thread::id caller_ = std::this_thread::get_id();
};

struct AsyncJob {
  Request request;
  Duration timeout{};
  std::uint64_t ticket = 0;  // identifies the entry in the flight recorder
  std::shared_ptr<HostPending> pending;
  std::optional<CallerMoment> called{};  // set for collective operations
};

class CollectiveQueue {
 public:
  CollectiveQueue(HostTransport& transport, FlightRecorder& recorder)
      : transport_(transport), recorder_(recorder) {}

  CollectiveQueue(const CollectiveQueue&) = delete;
  CollectiveQueue& operator=(const CollectiveQueue&) = delete;
  // Call only after all operations have completed.
  ~CollectiveQueue();

  void add(AsyncJob job);
  // Waits until no operation is in progress.
  void drain();

  [[nodiscard]] bool empty() const { return open_.load(std::memory_order_acquire) == 0; }

 private:
  void run();
  void perform(AsyncJob& job);
  [[nodiscard]] Duration held_up(const HostPending::Awaited& awaited,
                                 const AsyncJob& job,
                                 TimePoint over);

  HostTransport& transport_;
  FlightRecorder& recorder_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<AsyncJob> jobs_;
  std::atomic<std::size_t> open_{0};
  bool stopping_ = false;
  std::optional<CallerMoment> counted_;  // end of the counted wait time; used only by thread_
  std::thread thread_;
};

class TransferQueue {
 public:
  TransferQueue(HostTransport& transport, FlightRecorder& recorder)
      : transport_(transport), recorder_(recorder) {}

  TransferQueue(const TransferQueue&) = delete;
  TransferQueue& operator=(const TransferQueue&) = delete;
  ~TransferQueue();

  void add(AsyncJob job);

  [[nodiscard]] bool empty() const { return open_.load(std::memory_order_acquire) == 0; }

 private:
  struct Active {
    AsyncJob job;
    std::unique_ptr<Transfer> transfer;
    std::optional<Error> error{};  // found by look_at_all()
  };

  void run();
  void take_new();
  // Advances all transfers. Returns whether any of them made progress.
  [[nodiscard]] bool step_all();
  // Advances one transfer. Returns whether it is complete.
  [[nodiscard]] bool step(Active& active, bool& moved);
  void look_at_all();
  void end(Active& active, Result<void> result);
  [[nodiscard]] bool wait_for_work();

  HostTransport& transport_;
  FlightRecorder& recorder_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<AsyncJob> added_;
  std::atomic<std::size_t> open_{0};
  std::atomic<bool> has_new_{false};
  bool stopping_ = false;
  std::list<Active> active_;  // used only by the queue's thread
  std::thread thread_;
};

}  // namespace muster::collective
