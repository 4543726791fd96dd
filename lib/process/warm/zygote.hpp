// SPDX-License-Identifier: Apache-2.0
// Zygote: a Python process that imports modules once and forks workers from itself, so that they
// start in milliseconds and share its memory. zygote.py is what runs in it. The workers are our
// children, not its own: they are signalled, reaped and swept like any other. Part of LinuxRunner,
// on the loop's thread; resource.
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

// For argv of `python -u -c`: the program of the zygote.
[[nodiscard]] std::string_view zygote_source();

// A forked worker as the zygote reads it: the number of arguments, its CPUs and memory nodes as
// lists, the arguments, the environment, with a NUL behind each. Pure.
[[nodiscard]] std::string encode_worker(const ProcessSpec& spec);

// The kernel forks a large process in tens of milliseconds on a busy machine. We wait for that
// without serving the loop, so not for long: then the worker is started cold.
inline constexpr Duration kForkTimeout = std::chrono::seconds(2);

class Zygote final : public Watcher {
 public:
  struct News {
    enum class What {
      ready,    // workers can be forked
      stale,    // a module was installed anew: `detail` names it
      refused,  // it must not fork: `detail` says why
      unknown,  // a module that the command line names does not exist: `detail` says which
      ended,    // it is gone
    };
    What what = What::ended;
    std::string detail;
  };

  // Given the answer to each ask(), or why there will be none. From the poller.
  using Sink = std::function<void(const News&)>;

  // Its first answer follows when the imports are done. Errors: those of spawn_process, system.
  [[nodiscard]] static Result<std::unique_ptr<Zygote>> start(Poller& poller,
                                                             const ProcessSpec& spec,
                                                             const InheritedState& inherited,
                                                             Sink sink);
  // SIGKILL, unless it was reaped.
  ~Zygote() override;
  Zygote(const Zygote&) = delete;
  Zygote& operator=(const Zygote&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }

  // It is our child: who reaps the workers reaps it, and tells us. Then its number is free.
  void note_reaped() { reaped_ = true; }

  // Whether workers can still be forked.
  void ask();

  // After `ready`. Error: system; then it must not be used again.
  [[nodiscard]] Result<pid_t> fork(const ProcessSpec& spec, const ChildStreams& streams);

  void on_ready() override;

 private:
  Zygote(Poller& poller, UniqueFd control, pid_t pid, Sink sink);

  Poller& poller_;
  UniqueFd control_;
  pid_t pid_;
  Sink sink_;
  bool reaped_ = false;
};

}  // namespace muster
