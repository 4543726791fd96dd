// SPDX-License-Identifier: Apache-2.0
// UnreadInput: detects that our standard input has data although no worker inherits it, so that the
// user can be warned. Does not consume the data. Part of LinuxRunner; resource.
#pragma once

#include "process/loop/poller.hpp"

#include <functional>

namespace muster {

class UnreadInput final : public Watcher {
 public:
  // `on_found` is called once, either immediately or later.
  UnreadInput(int fd, Poller& poller, std::function<void()> on_found);
  ~UnreadInput() override;
  UnreadInput(const UnreadInput&) = delete;
  UnreadInput& operator=(const UnreadInput&) = delete;

  void on_ready() override;

 private:
  int fd_;
  Poller& poller_;
  std::function<void()> on_found_;
};

// Advice for the user.
void warn_of_unread_input();

}  // namespace muster
