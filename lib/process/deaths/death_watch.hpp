// SPDX-License-Identifier: Apache-2.0
// DeathWatch: detects that a worker is dying before it can be reaped. This works for workers that
// use the collective library. Reaping takes longer because the kernel first frees the worker's
// memory (0.1 s per GiB). Workers request a liveness word over a socket (base/liveness_page.hpp).
// The word is only a hint: /proc shows whether and why a worker is dying. If the kernel, namespaces
// or limits do not allow this, deaths are detected when workers are reaped. Part of LinuxRunner, on
// its thread. Resource.
#pragma once

#include "base/fd.hpp"
#include "base/liveness_page.hpp"
#include "process/deaths/death_thread.hpp"
#include "process/loop/poller.hpp"
#include "process/values/exit_status.hpp"

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace muster {

struct Dying {
  pid_t pid = 0;
  ExitStatus status;
};

class DeathWatch final : public Watcher {
 public:
  DeathWatch(Poller& poller, std::function<bool(pid_t)> is_worker);
  ~DeathWatch() override;
  DeathWatch(const DeathWatch&) = delete;
  DeathWatch& operator=(const DeathWatch&) = delete;

  // Called when a worker requests a liveness word or the thread reports a death.
  void on_ready() override;

  // Workers that hold a liveness word and have started to die from a failure since the last call.
  // Each worker is returned only once.
  [[nodiscard]] std::vector<Dying> take_dying();

  // Call note_failure and reaped before the launcher reports the exit, so that the remaining
  // workers can read which worker failed first.
  void note_failure(pid_t pid);
  void reaped(pid_t pid, const ExitStatus& status);

 private:
  struct Holder {
    pid_t pid = 0;  // 0 if the word is free
    bool seen = false;
  };

  [[nodiscard]] bool begin();
  void answer(int asker);
  [[nodiscard]] std::optional<std::uint32_t> word_for(pid_t pid);

  Poller& poller_;
  std::function<bool(pid_t)> is_worker_;
  UniqueFd asked_;
  UniqueFd news_;
  UniqueFd memory_;
  bool begun_ = false;
  LivenessPage* page_ = nullptr;
  std::unique_ptr<DeathThread> thread_;
  std::array<Holder, kLivenessWords> holders_{};
};

// The non-zero exit code or the fatal signal of a process that is exiting, read from its
// /proc/<pid>/stat. None if it is not exiting, exits with 0, or the kernel does not show the
// status. Pure.
[[nodiscard]] std::optional<ExitStatus> parse_dying(std::string_view stat);

// A process that is exiting but has not been reaped.
struct Ending {
  // None if the process exits with 0. Also none if the kernel shows the status only after reaping,
  // because the process belongs to another user or cannot be traced.
  std::optional<ExitStatus> failure;
  bool operator==(const Ending&) const = default;
};

// None if the process is not exiting. Pure.
[[nodiscard]] std::optional<Ending> parse_ending(std::string_view stat);

// Also none if /proc does not show the process.
[[nodiscard]] std::optional<Ending> ending_of(pid_t pid);

}  // namespace muster
