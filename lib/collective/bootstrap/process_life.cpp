// SPDX-License-Identifier: Apache-2.0
#include "collective/bootstrap/process_life.hpp"

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <vector>

#include <pthread.h>

namespace muster::collective {
namespace {

std::atomic<std::uint32_t> generation{0};

struct Listeners {
  std::mutex mutex;
  std::vector<ExitListener*> all;
  std::uint32_t generation = 0;
};

Listeners& listeners();

void tell_listeners() {
  Listeners& known = listeners();
  const std::scoped_lock lock(known.mutex);
  // A forked child that calls exit() runs this handler too, but the listeners belong to its parent.
  if (known.generation == fork_generation()) {
    for (ExitListener* const listener : known.all) {
      listener->process_exits();
    }
  }
}

// Never destroyed: it is used until the process has exited.
Listeners& listeners() {
  // Register with atexit() before adding the first listener. Handlers registered later, such as the
  // destructors of the program's own communicators, then run first.
  static auto* const kListeners = [] {
    static_cast<void>(std::atexit(tell_listeners));
    return new Listeners();
  }();
  return *kListeners;
}

}  // namespace

std::uint32_t fork_generation() {
  static const int kHooked = ::pthread_atfork(
      nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(kHooked);
  return generation.load(std::memory_order_relaxed);
}

void add_exit_listener(ExitListener& listener) {
  Listeners& known = listeners();
  const std::scoped_lock lock(known.mutex);
  if (known.generation != fork_generation()) {
    known.all.clear();  // these listeners belong to the parent process
    known.generation = fork_generation();
  }
  known.all.push_back(&listener);
}

void remove_exit_listener(ExitListener& listener) {
  Listeners& known = listeners();
  const std::scoped_lock lock(known.mutex);
  std::erase(known.all, &listener);
}

}  // namespace muster::collective
