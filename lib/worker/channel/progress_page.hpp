// SPDX-License-Identifier: Apache-2.0
// The page that an agent and one worker share: the worker stores its step there, which costs no
// system call, and the agent reads it when it wants to know. The agent makes it (a sealed memfd)
// and passes its descriptor beside the first frame of a connection. What a worker writes is
// hostile: any number may stand there. ProgressPage is a resource; any thread may store, one does.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "worker/channel/progress.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace muster::channel {

// As CHANNEL.md says: two numbers of 64 bits in the processor's own order.
struct ProgressWords {
  std::atomic<std::uint64_t> step;
  std::atomic<std::uint64_t> time;  // CLOCK_MONOTONIC in nanoseconds; 0: no step was told yet
};

inline constexpr std::size_t kProgressPageBytes = 4096;
static_assert(sizeof(ProgressWords) == 16 && std::atomic<std::uint64_t>::is_always_lock_free);

class ProgressPage {
 public:
  // Of the agent. Error: system.
  [[nodiscard]] static Result<ProgressPage> make();
  // Of the worker, from the descriptor that it was given, which must have a page's size.
  [[nodiscard]] static Result<ProgressPage> map(UniqueFd fd);

  ProgressPage(ProgressPage&& other) noexcept;
  ProgressPage& operator=(ProgressPage&& other) noexcept;
  ProgressPage(const ProgressPage&) = delete;
  ProgressPage& operator=(const ProgressPage&) = delete;
  ~ProgressPage();

  [[nodiscard]] int fd() const { return fd_.get(); }

  void store(std::uint64_t step, TimePoint now) {
    words_->step.store(step, std::memory_order_relaxed);
    words_->time.store(static_cast<std::uint64_t>(now.time_since_epoch().count()),
                       std::memory_order_release);
  }

  // The last step. A time that is not between the two given ones is taken as the nearer of them.
  [[nodiscard]] std::optional<StepTold> load(TimePoint started, TimePoint now) const;

 private:
  ProgressPage(UniqueFd fd, ProgressWords* words) : fd_(std::move(fd)), words_(words) {}

  void unmap();

  UniqueFd fd_;
  ProgressWords* words_ = nullptr;
};

}  // namespace muster::channel
