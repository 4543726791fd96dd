// SPDX-License-Identifier: Apache-2.0
// DeathThread: the launcher's one other thread. No descriptor becomes readable when a futex word
// changes, so somebody has to sleep on the workers' words: this thread does (futex_waitv), and adds
// to an eventfd when one of them says that its owner died. It reads the words and nothing else, and
// decides nothing. Made when the first worker has asked for a word; resource.
#pragma once

#include "base/error.hpp"
#include "base/liveness_page.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include <pthread.h>

namespace muster {

class DeathThread {
 public:
  // Both must outlive it. Error: system.
  [[nodiscard]] static Result<std::unique_ptr<DeathThread>> start(LivenessPage& page, int news_fd);
  ~DeathThread();
  DeathThread(const DeathThread&) = delete;
  DeathThread& operator=(const DeathThread&) = delete;

 private:
  DeathThread(LivenessPage& page, int news_fd) : page_(page), news_fd_(news_fd) {}

  static void* main(void* self);
  void watch();

  LivenessPage& page_;
  int news_fd_;
  std::atomic<std::uint32_t> stop_{0};  // watched as a word is
  std::optional<pthread_t> thread_;
};

}  // namespace muster
