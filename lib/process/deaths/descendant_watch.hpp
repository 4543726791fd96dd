// SPDX-License-Identifier: Apache-2.0
// DescendantWatch: detects that a worker's descendant has failed while the worker itself keeps
// running (--on-child-death). A pidfd reports each exit immediately. New processes are found by
// polling every kLook, because no kernel interface that is available to unprivileged users reports
// forks. Used by the agent on the loop's thread; resource.
#pragma once

#include "base/time.hpp"
#include "process/deaths/descendant_core.hpp"

#include <memory>
#include <optional>
#include <string_view>

namespace asio {
class io_context;
}

namespace muster {

class DescendantObserver {
 public:
  virtual ~DescendantObserver() = default;
  // Never called from within a call to the watch, nor for a worker that has already exited.
  virtual void on_descendant_failure(const DescendantEnd& end) = 0;
  // There are more descendants than can be watched. Called once.
  virtual void on_too_many_descendants() = 0;
};

class DescendantWatch {
 public:
  // The observer must outlive the watch.
  DescendantWatch(asio::io_context& loop, DescendantObserver& observer);
  ~DescendantWatch();
  DescendantWatch(const DescendantWatch&) = delete;
  DescendantWatch& operator=(const DescendantWatch&) = delete;

  // True if this host supports the watch, which needs pidfds and a /proc of our own pid namespace.
  [[nodiscard]] static bool is_possible();

  void add_worker(pid_t pid, int local_rank, int rank);
  void drop_worker(int local_rank);

  // Call when all workers are being stopped.
  void end();

  // Call before reaping: orphans are our children, and their status is available until we reap
  // them.
  void look_before_reaping();

  // The number of watched processes.
  [[nodiscard]] std::size_t count() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// Parses RANK from the contents of /proc/<pid>/environ. Pure.
[[nodiscard]] std::optional<int> rank_in_environment(std::string_view block);

}  // namespace muster
