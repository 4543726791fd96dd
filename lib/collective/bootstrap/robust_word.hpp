// SPDX-License-Identifier: Apache-2.0
// RobustWord: a futex word in shared memory that the kernel marks (kOwnerDied, base/futex.hpp) when
// the thread that holds it ends, however it ends and before the memory of its process is freed. It
// is the only entry of that thread's robust list. Resource; must outlive the thread, or be let go.
#pragma once

#include <atomic>
#include <cstdint>

namespace muster::collective {

class RobustWord {
 public:
  RobustWord() = default;
  RobustWord(const RobustWord&) = delete;
  RobustWord& operator=(const RobustWord&) = delete;

  // From the thread whose end is to be seen. It takes no robust mutex of glibc's: this list is in
  // place of theirs.
  void hold(std::atomic<std::uint32_t>& word);

  // From any thread: the end of the thread no longer marks the word.
  void let_go(std::atomic<std::uint32_t>& word);

 private:
  // The kernel's struct robust_list and struct robust_list_head (linux/futex.h). The list is a ring
  // through the head; the word lies `offset` bytes behind the entry.
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
