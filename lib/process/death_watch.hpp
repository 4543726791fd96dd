// SPDX-License-Identifier: Apache-2.0
// DeathWatch: sees that a worker which uses the collective library is dying, before the kernel has
// freed its memory and so lets us reap it (0.1 s for each GiB). Workers ask for a word over a
// socket (base/liveness_page.hpp); what a word says is only a hint: that a worker is dying, and of
// what, is what the kernel says of it. Where anything of this is not to be had (kernel, namespaces,
// limits) deaths are seen when they are reaped. Part of LinuxRunner, on its thread. Resource.
#pragma once

#include "base/fd.hpp"
#include "base/liveness_page.hpp"
#include "process/death_thread.hpp"
#include "process/exit_status.hpp"
#include "process/poller.hpp"

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

  // Workers that have begun to die of a failure since the last call, each once. Of several, those
  // that a signal ends come first: the others may have ended because they missed them.
  [[nodiscard]] std::vector<Dying> take_dying();

  void reaped(pid_t pid, const ExitStatus& status);

 private:
  struct Holder {
    pid_t pid = 0;  // 0: the word is free
    bool seen = false;
  };

  [[nodiscard]] bool begin();
  // For the workers that are left, before anything is done because of it.
  void note_failure(pid_t pid);
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

// How a process is ending, by its /proc/<pid>/stat: none where it is not, or where the kernel does
// not tell. Pure.
[[nodiscard]] std::optional<ExitStatus> parse_dying(std::string_view stat);

}  // namespace muster
