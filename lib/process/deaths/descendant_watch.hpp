// SPDX-License-Identifier: Apache-2.0
// DescendantWatch: sees that a process below a worker has failed, though the worker itself lives
// (--on-child-death). A pidfd of each tells its end at once; that there are new ones is looked at
// every kLook, since no part of the kernel that is open to every user reports a fork. Used by the
// agent on the loop's thread; resource.
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
  // Never from inside a call to the watch, and not about a worker that has ended itself.
  virtual void on_descendant_failure(const DescendantEnd& end) = 0;
  // There are more than can be watched; said once.
  virtual void on_too_many_descendants() = 0;
};

class DescendantWatch {
 public:
  // The observer must outlive the watch.
  DescendantWatch(asio::io_context& loop, DescendantObserver& observer);
  ~DescendantWatch();
  DescendantWatch(const DescendantWatch&) = delete;
  DescendantWatch& operator=(const DescendantWatch&) = delete;

  // Whether this machine lets us see them: pidfds, and a /proc of our own pid namespace.
  [[nodiscard]] static bool is_possible();

  void add_worker(pid_t pid, int local_rank, int rank);
  void drop_worker(int local_rank);

  // All workers are being ended.
  void end();

  // Orphans are our children: their status is there until we reap them.
  void look_before_reaping();

  // How many are watched.
  [[nodiscard]] std::size_t count() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// RANK in what /proc/<pid>/environ holds. Pure.
[[nodiscard]] std::optional<int> rank_in_environment(std::string_view block);

}  // namespace muster
