// SPDX-License-Identifier: Apache-2.0
// RshChildren: the remote shells that one machine has started, and the way to each machine behind
// them. Reaps all children of the process. Resource; one thread, the Poller's.
#pragma once

#include "base/error.hpp"
#include "process/exit_status.hpp"
#include "process/poller.hpp"
#include "remote/messages.hpp"
#include "remote/rsh_child.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

namespace muster {

class RshChildren final : public Watcher {
 public:
  RshChildren(Poller& poller, RshObserver& observer) : poller_(poller), observer_(observer) {}

  ~RshChildren() override;
  RshChildren(const RshChildren&) = delete;
  RshChildren& operator=(const RshChildren&) = delete;

  // Before the first start. `on_other` hears of the ends of other children.
  [[nodiscard]] Result<void> open(std::function<void(pid_t, ExitStatus)> on_other);

  // Starts one, and tells it its place.
  [[nodiscard]] Result<void> start(RshChild::Place place, const SetupMessage& setup);

  // To the machine, by the one that leads to it; nothing where there is none.
  void send(std::uint16_t host, RemoteFrameKind kind, std::string payload);
  void send_all(RemoteFrameKind kind, const std::string& payload);
  void close_all();

  void pause(RshChild& child);
  void resume_all();

  [[nodiscard]] bool all_gone() const;

  void on_ready() override;

 private:
  Poller& poller_;
  RshObserver& observer_;
  UniqueFd deaths_;
  std::function<void(pid_t, ExitStatus)> on_other_;
  std::vector<std::unique_ptr<RshChild>> children_;
  std::set<RshChild*> paused_;
};

}  // namespace muster
