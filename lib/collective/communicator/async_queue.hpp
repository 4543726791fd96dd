// SPDX-License-Identifier: Apache-2.0
// The communicator's own threads for host operations that were called with OpOptions::async: one
// performs collective operations in their order, one moves all sends and receives along. Each
// thread starts with its first operation. Resource types; add() and drain() by one thread.
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

// An operation that its thread completes with a result.
class HostPending final : public Pending {
 public:
  [[nodiscard]] bool done() const override { return done_.load(std::memory_order_acquire); }

  [[nodiscard]] Result<void> wait(Duration timeout) override;

  // There is no stream: what it would wait for is waited for here.
  [[nodiscard]] Result<void> wait_stream(void*) override { return wait(Duration::zero()); }

  // Who waits for it: the thread that started it, since when; or a helper in another thread, as it
  // completes PyTorch's futures, for which the first one may wait or not.
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
  std::uint64_t ticket = 0;  // of the recorder
  std::shared_ptr<HostPending> pending;
  std::optional<CallerMoment> called{};  // of collective operations
};

class CollectiveQueue {
 public:
  CollectiveQueue(HostTransport& transport, FlightRecorder& recorder)
      : transport_(transport), recorder_(recorder) {}

  CollectiveQueue(const CollectiveQueue&) = delete;
  CollectiveQueue& operator=(const CollectiveQueue&) = delete;
  // After all operations have ended.
  ~CollectiveQueue();

  void add(AsyncJob job);
  // Until none is under way.
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
  std::optional<CallerMoment> counted_;  // of the thread: its caller's waiting, until then
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
  };

  void run();
  void take_new();
  // Whether any of them moved.
  [[nodiscard]] bool step_all();
  // Whether it is over.
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
  std::list<Active> active_;  // of the thread
  std::thread thread_;
};

}  // namespace muster::collective
