// SPDX-License-Identifier: Apache-2.0
// World: the state of the fake driver: devices, contexts, streams (each with a thread), events,
// memory (ordinary host memory). One lock guards it. Never destroyed, like the real driver.
#pragma once

#include "nccl/fakes/cuda/order.hpp"

#include <cuda.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace muster::fake {

struct Context {
  int device = 0;
  int retained = 0;
};

struct Stream {
  int number = 0;  // number of the stream in Order
  int device = 0;
  std::deque<std::function<void()>> tasks;
  std::uint64_t given = 0;  // number of tasks queued so far
  std::uint64_t done = 0;
  bool closing = false;
  bool legacy = false;  // the default stream
  bool captures = false;
  std::string held;  // why the stream must not be used now; empty if it may be
};

struct Event {
  int device = 0;
  // Whether the newest record has been passed. A waiter for an older record has that one's flag.
  std::shared_ptr<bool> passed = std::make_shared<bool>(true);
  Clock clock;
  bool destroyed = false;
};

struct Allocation {
  std::size_t bytes = 0;
  int device = 0;
  unsigned type = CU_MEMORYTYPE_DEVICE;  // the reported type
  unsigned managed = 0;
};

class World {
 public:
  // Breaks a rule in a process that was forked after cuInit.
  [[nodiscard]] static World& get();

  using Lock = std::unique_lock<std::mutex>;

  [[nodiscard]] Lock lock() { return Lock(mutex_); }

  // All of these require the lock.
  [[nodiscard]] Stream& stream_of(CUstream handle, int device);
  [[nodiscard]] Stream* make_stream(int device);
  void close_stream(Stream& stream);
  void push(Stream& stream, std::function<void()> task);
  // Waits until the stream has completed the work queued so far.
  void await(Lock& lock, Stream& stream);
  // The same; then the host knows its clock.
  void drain(Lock& lock, Stream& stream);
  // Waits until all streams of the device have completed their work, like calls that free memory.
  // The host does not learn that.
  void await_device(Lock& lock, int device);
  // Called when the last holder releases the device's context, which would destroy its contents:
  // any contents break a rule.
  void check_nothing_is_left(int device) const;
  // Bytes from the address to the end of its allocation; 0: not device memory.
  [[nodiscard]] std::size_t bytes_from(std::uintptr_t address) const;
  // The stream's newest operation uses memory, which must be the device's and ordered after earlier
  // uses; otherwise a rule is broken.
  void touch(const Stream& stream, Span span, const std::string& what);

  void wait(Lock& lock) { changed_.wait(lock); }

  void notify() { changed_.notify_all(); }

  std::vector<Context> contexts;
  std::map<std::uintptr_t, Allocation> memory;
  Order order;
  bool initialised = false;
  bool capturing = false;
  int awaiting = 0;            // threads in await_device
  std::map<int, int> modules;  // loaded modules, by device
  int pid = 0;

 private:
  void run(Stream& stream);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, Stream*> legacy_;  // the default stream of each device
  std::vector<std::unique_ptr<Stream>> streams_;
};

// The thread's stack of contexts.
[[nodiscard]] std::vector<Context*>& context_stack();
// The device of the current context; -1: none.
[[nodiscard]] int current_device();
// The same for calls that need a context; without one, a rule is broken.
[[nodiscard]] int required_device();

}  // namespace muster::fake
