// SPDX-License-Identifier: Apache-2.0
// Poller: one epoll descriptor for everything that process/ waits for. The agent's loop waits on
// this descriptor. Watching a worker's pipe thus takes a single system call, and the remaining
// output can be drained at the end without running the loop. Resource; lives on the loop's thread.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"

#include <cstdint>
#include <map>

namespace muster {

class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void on_ready() = 0;
};

class Poller {
 public:
  [[nodiscard]] static Result<Poller> open();

  [[nodiscard]] int fd() const { return epoll_.get(); }

  // Level-triggered. `watcher` must outlive the watch.
  [[nodiscard]] Result<void> watch_input(int fd, Watcher& watcher);
  [[nodiscard]] Result<void> watch_room(int fd, Watcher& watcher);
  void forget(int fd);

  // Waits at most `timeout_ms` for a watcher to become ready, then calls each ready watcher once.
  void dispatch(int timeout_ms);

 private:
  explicit Poller(UniqueFd epoll) : epoll_(std::move(epoll)) {}

  [[nodiscard]] Result<void> watch(int fd, std::uint32_t events, Watcher& watcher);

  UniqueFd epoll_;
  std::map<int, Watcher*> watchers_;
};

}  // namespace muster
