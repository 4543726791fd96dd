// SPDX-License-Identifier: Apache-2.0
#include "collective/bootstrap/robust_word.hpp"

#include "base/futex.hpp"

#include <sys/syscall.h>
#include <unistd.h>

namespace muster::collective {

// Add the list entry before storing the thread's tid in the word, so that the kernel marks the word
// whenever the thread dies. In the opposite order, a thread killed between the two steps would look
// alive forever. The kernel skips a word that does not contain the dying thread's tid.
void RobustWord::hold(std::atomic<std::uint32_t>& word) {
  head_.offset = reinterpret_cast<char*>(&word) - reinterpret_cast<char*>(&node_);
  // Replaces the list that glibc registered for this thread. The kernel reads the list if the
  // thread dies, which can happen at any time, so the list must be traversable after each store
  // below.
  ::syscall(SYS_set_robust_list, &head_, sizeof(head_));
  node_.next = &head_.first;
  // Link the entry to the head before linking the head to the entry.
  head_.first.next = &node_;
  // The kernel marks the word only if it contains the dying thread's tid, as seen in that thread's
  // pid namespace. It wakes a waiter only if kHasWaiters is set.
  word.store(static_cast<std::uint32_t>(::gettid()) | kHasWaiters);
}

// Unlink first: after the store the word may belong to another thread, and our death must no longer
// mark it.
void RobustWord::let_go(std::atomic<std::uint32_t>& word) {
  head_.first.next = &head_.first;
  word.store(0);
  futex_wake_all(word);
}

}  // namespace muster::collective
