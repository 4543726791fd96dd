// SPDX-License-Identifier: Apache-2.0
// A page that an agent shares with one worker. The worker stores its step in the page without a
// system call, and the agent reads it on demand. The agent stores a preemption notice in the page,
// and the worker checks for it in every step. The agent creates the page (a sealed memfd) and
// passes its descriptor with the first frame of a connection. The contents are untrusted: a worker
// may write any number. ProgressPage is a resource; one thread stores or polls at a time.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "worker/channel/progress.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace muster::channel {

inline constexpr std::size_t kNumbersMax = 8;
inline constexpr std::size_t kNumberNameBytesMax = 24;

// A name is padded with zero bytes. Its words do not change after the number has been added.
struct NumberWords {
  std::array<std::atomic<std::uint64_t>, kNumberNameBytesMax / sizeof(std::uint64_t)> name;
  std::atomic<std::uint64_t> number;  // the bytes of a double
};

// Documented in CHANNEL.md: 64-bit numbers in native byte order.
struct ProgressWords {
  std::atomic<std::uint64_t> step;
  std::atomic<std::uint64_t> time;           // CLOCK_MONOTONIC in ns; 0 before the first step
  std::atomic<std::uint64_t> longest_pause;  // between two steps, in ns
  std::atomic<std::uint64_t> polls;          // 1 if the worker checks for a notice
  std::atomic<std::uint64_t> notice;         // 1 after the agent has given notice
  std::atomic<std::uint64_t> deadline;       // CLOCK_MONOTONIC in ns; stored before `notice`
  std::atomic<std::uint64_t> numbers_count;  // stored after the name and the number
  std::atomic<std::uint64_t> unused;
  std::array<NumberWords, kNumbersMax> numbers;
};

inline constexpr std::size_t kProgressPageBytes = 4096;
inline constexpr Duration kPauseMax = std::chrono::hours(24);
static_assert(sizeof(ProgressWords) == 320 && std::atomic<std::uint64_t>::is_always_lock_free);

// Letters, digits and the characters _ . / - only, at most kNumberNameBytesMax of them.
[[nodiscard]] bool is_number_name(std::string_view name);

// A memfd of this size. The size is sealed, because a worker that shrinks the file would crash
// other processes that map it (SIGBUS). Error: system.
[[nodiscard]] Result<UniqueFd> sealed_memory(const char* name, std::size_t bytes);

class ProgressPage {
 public:
  // Called by the agent. Error: system.
  [[nodiscard]] static Result<ProgressPage> make();
  // Called by the worker. The received descriptor must refer to a file of at least one page.
  [[nodiscard]] static Result<ProgressPage> map(UniqueFd fd);

  ProgressPage(ProgressPage&& other) noexcept;
  ProgressPage& operator=(ProgressPage&& other) noexcept;
  ProgressPage(const ProgressPage&) = delete;
  ProgressPage& operator=(const ProgressPage&) = delete;
  ~ProgressPage();

  [[nodiscard]] int fd() const { return fd_.get(); }

  void store(std::uint64_t step, TimePoint now) {
    const auto time = static_cast<std::uint64_t>(now.time_since_epoch().count());
    const std::uint64_t before = words_->time.load(std::memory_order_relaxed);
    if (before != 0 && time > before &&
        time - before > words_->longest_pause.load(std::memory_order_relaxed)) {
      words_->longest_pause.store(time - before, std::memory_order_relaxed);
    }
    words_->step.store(step, std::memory_order_relaxed);
    words_->time.store(time, std::memory_order_release);
  }

  // Stores a number under this name. False if the name is invalid, or if the page already contains
  // kNumbersMax other names.
  bool store_number(std::string_view name, double number);

  // The numbers with valid names, in the order in which they were added.
  [[nodiscard]] std::vector<NamedNumber> numbers() const;

  // The last step. The time is clamped to the interval from `started` to `now`.
  [[nodiscard]] std::optional<StepTold> load(TimePoint started, TimePoint now) const;

  // At most kPauseMax. A replacement has a new page.
  [[nodiscard]] Duration longest_pause() const;

  // -- preemption, the agent's side. Afterwards a memory barrier of all processes is needed: then
  // each worker either sees the notice at its next poll, or load() returns its step.
  void give_notice(TimePoint deadline) {
    words_->deadline.store(static_cast<std::uint64_t>(deadline.time_since_epoch().count()),
                           std::memory_order_relaxed);
    words_->notice.store(1, std::memory_order_release);
  }

  [[nodiscard]] bool polls() const { return words_->polls.load(std::memory_order_relaxed) != 0; }

  // -- preemption, the worker's side
  void announce_polls() { words_->polls.store(1, std::memory_order_relaxed); }

  // Returns true after the agent has given notice. While the program does not call store() itself,
  // each poll counts as a step, from 0.
  [[nodiscard]] bool poll();

  // Empty if there is no notice.
  [[nodiscard]] std::optional<TimePoint> deadline() const;

  // The step that this worker has stored; empty if there is none.
  [[nodiscard]] std::optional<std::uint64_t> step() const;

 private:
  ProgressPage(UniqueFd fd, ProgressWords* words) : fd_(std::move(fd)), words_(words) {}

  void unmap();
  [[nodiscard]] std::size_t numbers_count() const;

  UniqueFd fd_;
  ProgressWords* words_ = nullptr;
  std::uint64_t polls_counted_ = 0;
  std::uint64_t counted_at_ = 0;  // time of the last poll that counted as a step
};

}  // namespace muster::channel
