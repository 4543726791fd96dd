// SPDX-License-Identifier: Apache-2.0
// RshChild: one remote shell process and its frames. Keeps the last part of its standard error for
// error messages. Used by HostsLauncher and, for hosts further down the tree, by RemoteAgent.
// Single-threaded, on the Poller's thread. Resource.
#pragma once

#include "base/fd.hpp"
#include "process/loop/poller.hpp"
#include "process/values/exit_status.hpp"
#include "remote/frames.hpp"
#include "remote/launch_plan.hpp"
#include "remote/rsh_failure.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace muster {

class RshChild;

class RshObserver {
 public:
  virtual ~RshObserver() = default;
  virtual void on_frame(RshChild& child, const Frame& frame) = 0;
  // The process has exited and all of its frames have been delivered. This is always the last call.
  virtual void on_gone(RshChild& child) = 0;

  // The process has failed transiently and will be restarted.
  virtual void on_retry(RshChild& /*child*/) {}
};

class RshChild {
 public:
  struct Place {
    Branch branch;  // the hosts that are reached through this remote shell
    std::string name;
    std::vector<std::string> argv;
    std::vector<std::string> environment;
  };

  [[nodiscard]] static Result<std::unique_ptr<RshChild>> start(Poller& poller,
                                                               RshObserver& observer,
                                                               Place place);
  ~RshChild();
  RshChild(const RshChild&) = delete;
  RshChild& operator=(const RshChild&) = delete;

  void send(const Frame& frame);

  // Closes the input after all queued frames are sent. This kills the remote processes.
  void close_input();

  // Must be called after the process is reaped.
  void reaped(ExitStatus status);

  // Kills the process after a protocol error; `why` is reported as the reason.
  void fail(const std::string& why);

  [[nodiscard]] pid_t pid() const { return pid_; }

  [[nodiscard]] const Branch& branch() const { return place_.branch; }

  [[nodiscard]] bool is_gone() const { return gone_; }

  [[nodiscard]] RshEnd end() const;

  // Describes how the process exited, for messages.
  [[nodiscard]] std::string describe_end() const { return describe(end()); }

 private:
  // One of the three pipes.
  struct Port final : Watcher {
    std::function<void()> act;

    void on_ready() override { act(); }
  };

  RshChild(Poller& poller, RshObserver& observer, Place place);

  [[nodiscard]] Result<void> spawn();
  void write_queue();
  void read_output();
  void read_error();
  void tell_frames();
  void close_output();
  void look_gone();

  Poller& poller_;
  RshObserver& observer_;
  Place place_;
  pid_t pid_ = 0;
  UniqueFd input_;
  UniqueFd output_;
  UniqueFd error_;
  Port input_port_;
  Port output_port_;
  Port error_port_;
  std::string queue_;  // pending output
  bool queue_watched_ = false;
  bool input_ends_ = false;
  bool gone_ = false;
  FrameReader frames_{false};
  std::string error_tail_;
  std::string failure_;
  std::optional<ExitStatus> status_;
};

}  // namespace muster
