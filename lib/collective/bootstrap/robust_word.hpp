// SPDX-License-Identifier: Apache-2.0
// RobustWord: a futex word in shared memory. When the thread that holds the word dies for any
// reason, the kernel marks it (kOwnerDied, base/futex.hpp) before it frees the process's memory.
// The word is the only entry in that thread's robust list. Resource; must outlive the thread unless
// let_go() is called first.
#pragma once

#include <atomic>
#include <cstdint>

namespace muster::collective {

class RobustWord {
 public:
  RobustWord() = default;
  RobustWord(const RobustWord&) = delete;
  RobustWord& operator=(const RobustWord&) = delete;

  // Call from the thread to be watched. That thread must not lock robust glibc mutexes, because
  // this list replaces glibc's.
  void hold(std::atomic<std::uint32_t>& word);

  // Any thread. After this call, the thread's death no longer marks the word.
  void let_go(std::atomic<std::uint32_t>& word);

 private:
  // Same layout as the kernel's struct robust_list and struct robust_list_head (linux/futex.h). The
  // list is circular through the head; the word is at `offset` bytes from the entry.
  struct Node {
    Node* next;
  };

  struct Head {
    Node first{&first};
    long offset = 0;
    Node* pending = nullptr;
  };

  Head head_;
  Node node_{nullptr};
};

}  // namespace muster::collective
