// SPDX-License-Identifier: Apache-2.0
// Zygote: a Python process that imports modules once and forks workers from itself, so that they
// start in milliseconds and share its memory. It runs zygote.py. The workers are children of the
// launcher, not of the zygote: they are signalled, reaped and swept like any other. Part of
// LinuxRunner, on the loop's thread; resource.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"
#include "process/loop/poller.hpp"
#include "process/start/inherited_state.hpp"
#include "process/start/spawn.hpp"
#include "process/values/process_spec.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace muster {

// The zygote's program, for `python -u -c`.
[[nodiscard]] std::string_view zygote_source();

// On a busy machine the kernel needs tens of milliseconds to fork a large process. The loop is
// blocked during the wait, so the wait is limited. After a timeout the worker is started cold.
inline constexpr Duration kForkTimeout = std::chrono::seconds(2);

class Zygote final : public Watcher {
 public:
  struct News {
    enum class What {
      ready,    // workers can be forked
      stale,    // another zygote must replace it; `detail` is the reason
      refused,  // it must not fork; `detail` is the reason
      unknown,  // a module named on the command line does not exist; `detail` is its name
      ended,    // it has exited
    };
    What what = What::ended;
    std::string detail;
  };

  // Called from the poller with the answer to each ask(), or with `ended` if the zygote has exited.
  using Sink = std::function<void(const News&)>;

  // The first answer arrives when the imports are done. With `ahead`, no worker waits for it, and
  // the zygote also imports modules that may turn out to be unsafe. Errors: those of spawn_process,
  // system.
  [[nodiscard]] static Result<std::unique_ptr<Zygote>> start(Poller& poller,
                                                             const ProcessSpec& spec,
                                                             const InheritedState& inherited,
                                                             bool ahead,
                                                             Sink sink);
  // Sends SIGKILL to the zygote unless it was reaped.
  ~Zygote() override;
  Zygote(const Zygote&) = delete;
  Zygote& operator=(const Zygote&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }

  // The zygote is our child and is reaped with the workers. After this call its pid may be reused.
  void note_reaped() { reaped_ = true; }

  // Asks whether workers can still be forked.
  void ask() { send("prepare"); }

  // Call only after `ready`. Error: system; do not use the zygote after an error.
  [[nodiscard]] Result<pid_t> fork(const ProcessSpec& spec, const ChildStreams& streams);

  void on_ready() override;

 private:
  Zygote(Poller& poller, UniqueFd control, pid_t pid, Sink sink);

  void send(std::string_view question);

  Poller& poller_;
  UniqueFd control_;
  pid_t pid_;
  Sink sink_;
  bool reaped_ = false;
};

}  // namespace muster
