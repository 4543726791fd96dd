// SPDX-License-Identifier: Apache-2.0
// Liveness: one thread per communicator, with the same lifetime. It holds the rank's word in the
// kernel's robust list, so that other ranks detect the rank's death before its memory is freed.
// Detection takes 0.2 ms even if the rank uses gigabytes of memory; through sockets it takes half a
// second. The thread sleeps on the other ranks' words. Resource type.
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
  // Returns once the word of members[self] is held. The thread calls `on_death` once for each
  // member that dies, with its index.
  Liveness(std::vector<Member*> members,
           std::size_t self,
           std::function<void(std::size_t)> on_death);
  ~Liveness() override;

  // Call once all members have arrived. Starts watching them.
  void watch();

  // Leaves cleanly, so that other ranks see that we left and did not die. Later calls do nothing.
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
  std::atomic<std::uint32_t> calls_{0};  // incremented to wake the thread
  std::atomic<bool> watching_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace muster::collective
