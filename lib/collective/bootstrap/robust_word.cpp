// SPDX-License-Identifier: Apache-2.0
#include "collective/bootstrap/robust_word.hpp"

#include "base/futex.hpp"

#include <sys/syscall.h>
#include <unistd.h>

namespace muster::collective {

// The entry is on the list before the word names its holder: a word that names a thread is marked
// at that thread's end, with no moment between. The other way round a thread that is killed between
// the two would look alive for ever. The kernel passes over a word that names nobody yet.
void RobustWord::hold(std::atomic<std::uint32_t>& word) {
  head_.offset = reinterpret_cast<char*>(&word) - reinterpret_cast<char*>(&node_);
  // In place of the list that glibc registered for this thread. The kernel reads it when the thread
  // ends, whatever it was at: each of the stores below must leave a list that can be walked.
  ::syscall(SYS_set_robust_list, &head_, sizeof(head_));
  node_.next = &head_.first;
  // The entry points back to the head before the head points to it.
  head_.first.next = &node_;
  // The kernel marks the word only while it names the thread that ends, by its id in that thread's
  // pid namespace, and wakes somebody only where kHasWaiters is set.
  word.store(static_cast<std::uint32_t>(::gettid()) | kHasWaiters);
}

// Off the list first: the kernel must not mark a word that somebody else may hold by then.
void RobustWord::let_go(std::atomic<std::uint32_t>& word) {
  head_.first.next = &head_.first;
  word.store(0);
  futex_wake_all(word);
}

}  // namespace muster::collective
