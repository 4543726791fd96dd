// SPDX-License-Identifier: Apache-2.0
// DeathThread: the launcher's only thread besides the event loop's thread. A change to a futex word
// does not make a descriptor readable, so this thread waits on the workers' words (futex_waitv) and
// signals an eventfd when a word shows that its owner died. It only reads the words and makes no
// decisions. Started when the first worker requests a liveness word; resource.
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
  // The page and the descriptor must outlive the thread. Error: system.
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
  std::atomic<std::uint32_t> stop_{0};  // the thread waits on this word too
  std::optional<pthread_t> thread_;
};

}  // namespace muster
