// SPDX-License-Identifier: Apache-2.0
// DeathWatch: sees that a worker which uses the collective library is dying, before the kernel has
// freed its memory and so lets us reap it (0.1 s for each GiB). Workers ask for a word over a
// socket (base/liveness_page.hpp); what a word says is only a hint: that a worker is dying, and of
// what, is what the kernel says of it. Where anything of this is not to be had (kernel, namespaces,
// limits) deaths are seen when they are reaped. Part of LinuxRunner, on its thread. Resource.
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

  // Somebody asks for a word, or the thread has news.
  void on_ready() override;

  // Workers that hold a word and have begun to die of a failure since the last call, each once.
  [[nodiscard]] std::vector<Dying> take_dying();

  // Both are called before the launcher reports the end. The remaining workers read which failure
  // was the first.
  void note_failure(pid_t pid);
  void reaped(pid_t pid, const ExitStatus& status);

 private:
  struct Holder {
    pid_t pid = 0;  // 0: the word is free
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

// The failure that a process is ending with, by its /proc/<pid>/stat. None if it is not ending,
// ends with 0, or if the kernel does not show the status. Pure.
[[nodiscard]] std::optional<ExitStatus> parse_dying(std::string_view stat);

// A process that is ending and has not been reaped.
struct Ending {
  // None: it ends with 0, or the kernel shows us the status only after we reap it, because the
  // process has another user or cannot be traced.
  std::optional<ExitStatus> failure;
  bool operator==(const Ending&) const = default;
};

// None: it is not ending. Pure.
[[nodiscard]] std::optional<Ending> parse_ending(std::string_view stat);

// None also if /proc does not show the process.
[[nodiscard]] std::optional<Ending> ending_of(pid_t pid);

}  // namespace muster
