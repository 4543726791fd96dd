// SPDX-License-Identifier: Apache-2.0
#include "collective/bootstrap/death_notice.hpp"

#include "base/blocked_signals.hpp"
#include "base/fd.hpp"
#include "base/futex.hpp"
#include "base/liveness_page.hpp"
#include "base/unix_socket.hpp"
#include "collective/bootstrap/robust_word.hpp"

#include <atomic>
#include <mutex>
#include <optional>

#include <pthread.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

namespace muster::collective {
namespace {

// The launcher replies from its event loop. If the launcher is stopped (SIGSTOP), do not block for
// longer than this.
constexpr timeval kTimeout{.tv_sec = 1, .tv_usec = 0};

struct Offered {
  UniqueFd memory;
  LivenessOffer offer;
};

// Connects to our parent. Checks the peer's pid, because another process could bind the name.
UniqueFd reach_launcher() {
  const pid_t parent = ::getppid();
  const UnixAddress address = liveness_address(parent);
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd || ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kTimeout, sizeof(timeval)) != 0 ||
      ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof(timeval)) != 0 ||
      ::connect(fd.get(), address.raw(), address.size) != 0) {
    return {};
  }
  const auto who = peer_of(fd.get());
  return who && who->pid == parent ? std::move(fd) : UniqueFd();
}

std::optional<Offered> ask_launcher() {
  const UniqueFd from = reach_launcher();
  if (!from) {
    return std::nullopt;
  }
  Offered out;
  auto fds =
      receive_with_fds(from.get(), {reinterpret_cast<char*>(&out.offer), sizeof(LivenessOffer)});
  if (fds.size() != 1 || out.offer.version != kLivenessVersion ||
      out.offer.word >= kLivenessWords) {
    return std::nullopt;
  }
  out.memory = std::move(fds[0]);
  return out;
}

RobustWord robust_word;
std::atomic<std::uint32_t> held{0};
std::atomic<LivenessPage*> shown{nullptr};  // never unmapped

// The thread's entry point. Holds the liveness word until the process exits. The kernel then marks
// the word, no matter how the process died.
void* hold(void* offered) {
  auto& life = *static_cast<std::atomic<std::uint32_t>*>(offered);
  ::pthread_setname_np(::pthread_self(), "muster-life");
  run_promptly();
  robust_word.hold(life);
  futex_wake_all(life);
  held.store(1);
  futex_wake_all(held);
  while (true) {
    ::pause();  // all signals are blocked in this thread
  }
}

void ask_and_hold() {
  const auto offered = ask_launcher();
  if (!offered) {
    return;
  }
  void* const page = ::mmap(
      nullptr, kLivenessPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, offered->memory.get(), 0);
  if (page == MAP_FAILED) {
    return;
  }
  shown.store(static_cast<LivenessPage*>(page));
  auto& word = shown.load()->words[offered->offer.word];
  pthread_t thread{};
  bool runs = false;
  {
    // The thread inherits the mask, so the program's signals are not delivered to it.
    const BlockedSignals blocked;
    runs = ::pthread_create(&thread, nullptr, hold, &word) == 0;
  }
  if (runs) {
    ::pthread_detach(thread);
  }
  // Continue only once the launcher is able to detect our death.
  while (runs && held.load() == 0) {
    futex_wait(held, 0, std::chrono::hours(1));
  }
}

}  // namespace

void request_death_notice() {
  static std::once_flag once;
  std::call_once(once, ask_and_hold);
}

pid_t first_dead_worker() {
  const LivenessPage* const page = shown.load();
  return page == nullptr ? 0 : static_cast<pid_t>(page->first_dead.load());
}

}  // namespace muster::collective
