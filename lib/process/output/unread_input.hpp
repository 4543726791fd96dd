// SPDX-License-Identifier: Apache-2.0
// UnreadInput: notices that our standard input has something although no worker was given it, so
// that the user hears of it. Takes nothing from it. Part of LinuxRunner; resource.
#pragma once

#include "process/loop/poller.hpp"

#include <functional>

namespace muster {

class UnreadInput final : public Watcher {
 public:
  // `on_found` is called once, now or later.
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

}  // namespace muster
