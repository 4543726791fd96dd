// SPDX-License-Identifier: Apache-2.0
// RshChildren: owns the remote shells that this process has started, and finds the remote shell
// that leads to a given host. Retries remote shells with transient failures until a deadline. Reaps
// all children of the process. Resource; single-threaded, on the Poller's thread.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"
#include "process/loop/poller.hpp"
#include "process/values/exit_status.hpp"
#include "remote/messages.hpp"
#include "remote/rsh_child.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace muster {

class RshChildren final : public Watcher, private RshObserver {
 public:
  RshChildren(Poller& poller, RshObserver& observer) : poller_(poller), observer_(observer) {}

  ~RshChildren() override;
  RshChildren(const RshChildren&) = delete;
  RshChildren& operator=(const RshChildren&) = delete;

  // Must be called before the first start(). `on_other` is called when any other child exits.
  [[nodiscard]] Result<void> open(std::function<void(pid_t, ExitStatus)> on_other);

  // Starts a remote shell and sends its setup message.
  [[nodiscard]] Result<void> start(RshChild::Place place, const SetupMessage& setup);

  // Sends a frame to this host through the remote shell that leads to it. Does nothing if that
  // remote shell is not running.
  void send(std::uint16_t host, RemoteFrameKind kind, std::string payload);
  void send_all(RemoteFrameKind kind, const std::string& payload);
  void close_all();

  // Retries transient failures until this time. Must be called before the first start().
  void retry_until(TimePoint when) { retry_until_ = when; }

  [[nodiscard]] std::optional<TimePoint> next_deadline() const;
  void tick(TimePoint now);

  [[nodiscard]] bool all_gone() const;

  void on_ready() override;

 private:
  struct Slot {
    std::unique_ptr<RshChild> child;
    RshChild::Place place;
    SetupMessage setup;
    int failures = 0;
    std::optional<TimePoint> again;  // when to retry, if the child has failed
  };

  void on_frame(RshChild& child, const Frame& frame) override;
  void on_gone(RshChild& child) override;
  [[nodiscard]] Result<void> start_in(Slot& slot);
  [[nodiscard]] Slot& slot_of(const RshChild& child);

  Poller& poller_;
  RshObserver& observer_;
  UniqueFd deaths_;
  std::function<void(pid_t, ExitStatus)> on_other_;
  std::vector<Slot> slots_;
  TimePoint retry_until_{};
  bool closing_ = false;
};

}  // namespace muster
