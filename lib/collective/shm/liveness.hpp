// SPDX-License-Identifier: Apache-2.0
// Liveness: one thread for each communicator, which lives as long as it and does two things: it
// holds the rank's word in the kernel's robust list, so that the others see its death before its
// memory is freed (0.2 ms for gigabytes, where sockets take half a second); and it sleeps on the
// words of the others. Resource type.
#pragma once

#include "collective/bootstrap/process_life.hpp"
#include "collective/bootstrap/robust_word.hpp"
#include "collective/shm/segment_page.hpp"

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace muster::collective {

class Liveness final : public ExitListener {
 public:
  // Returns when the word of members[self] is held. `on_death` gets the index of a member that has
  // died; called on the thread, once for each.
  Liveness(std::vector<Member*> members,
           std::size_t self,
           std::function<void(std::size_t)> on_death);
  ~Liveness() override;

  // All are here: from now on they are watched.
  void watch();

  // In order: the others see that we have left, not that we died. Later calls do nothing.
  void leave();

  void process_exits() override { leave(); }

 private:
  void run();
  void look_and_sleep(std::vector<bool>& reported);

  std::vector<Member*> members_;
  std::size_t self_;
  std::function<void(std::size_t)> on_death_;
  std::uint32_t generation_;

  RobustWord word_;
  std::mutex leaving_;
  std::atomic<std::uint32_t> held_{0};
  std::atomic<std::uint32_t> calls_{0};  // counts up to wake the thread
  std::atomic<bool> watching_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace muster::collective
