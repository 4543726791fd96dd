// SPDX-License-Identifier: Apache-2.0
// BlockedSignals: while it lives the calling thread takes no signals. Threads that are made
// meanwhile never do: the program's signals are for its own threads. RAII.
#pragma once

#include <csignal>

namespace muster {

class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }

  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace muster
