// SPDX-License-Identifier: Apache-2.0
// Functions that never return, for the programs in kinds.py.
#include <atomic>
#include <thread>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

pthread_mutex_t mutexes[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
std::atomic<int> held{0};
volatile unsigned long turns = 0;

}  // namespace

extern "C" {

[[gnu::noinline]] void spin_in_c() {
  while (true) {
    turns = turns + 1;
  }
}

[[gnu::noinline]] void hold_and_lock(int first) {
  pthread_mutex_lock(&mutexes[first]);
  ++held;
  while (held < 2) {
  }
  pthread_mutex_lock(&mutexes[1 - first]);
  pthread_mutex_unlock(&mutexes[1 - first]);
}

void lock_inversion() {
  std::thread([] { hold_and_lock(1); }).detach();
  hold_and_lock(0);
}

// Like a program that forks while another thread is in malloc.
void fork_with_locked_mutex() {
  pthread_mutex_lock(&mutexes[0]);
  const pid_t child = fork();
  if (child == 0) {
    pthread_mutex_lock(&mutexes[0]);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}
}
