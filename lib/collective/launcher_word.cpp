// SPDX-License-Identifier: Apache-2.0
#include "collective/launcher_word.hpp"

#include "base/blocked_signals.hpp"
#include "base/fd.hpp"
#include "base/futex.hpp"
#include "base/life_page.hpp"
#include "base/unix_socket.hpp"
#include "collective/segment_page.hpp"

#include <atomic>
#include <mutex>
#include <optional>

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

namespace muster::collective {
namespace {

// The launcher answers from its loop; one that is stopped does not hold us up for longer.
constexpr timeval kPatience{.tv_sec = 1, .tv_usec = 0};

// The kernel's struct robust_list_head, and its one entry.
struct Head {
  RobustNode first{&first};
  long offset = 0;
  RobustNode* pending = nullptr;
};

Head head;
RobustNode node{};

struct Offered {
  UniqueFd memory;
  LifeOffer offer;
};

// Connected to our parent, and to nobody who took its name.
UniqueFd reach_launcher() {
  const pid_t parent = ::getppid();
  const UnixAddress address = life_address(parent);
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd || ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof(timeval)) != 0 ||
      ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(timeval)) != 0 ||
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
  auto fds = receive_with_fds(from.get(), {reinterpret_cast<char*>(&out.offer), sizeof(LifeOffer)});
  if (fds.size() != 1 || out.offer.version != kLifeVersion || out.offer.word >= kLifeWords) {
    return std::nullopt;
  }
  out.memory = std::move(fds[0]);
  return out;
}

std::atomic<std::uint32_t> held{0};

// Never left: the kernel marks the word when the process ends, however it does.
void* hold(void* offered) {
  auto& life = *static_cast<std::atomic<std::uint32_t>*>(offered);
  ::pthread_setname_np(::pthread_self(), "muster-life");
  run_promptly();
  head.offset = reinterpret_cast<char*>(&life) - reinterpret_cast<char*>(&node);
  // In place of glibc's own list: this thread takes no robust mutex.
  ::syscall(SYS_set_robust_list, &head, sizeof(head));
  node.next = &head.first;
  head.first.next = &node;
  life.store(static_cast<std::uint32_t>(::gettid()) | kHasWaiters);
  futex_wake_all(life);
  held.store(1);
  futex_wake_all(held);
  while (true) {
    ::pause();  // all signals are blocked
  }
}

void ask_and_hold() {
  const auto offered = ask_launcher();
  if (!offered) {
    return;
  }
  void* const page =
      ::mmap(nullptr, kLifePageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, offered->memory.get(), 0);
  if (page == MAP_FAILED) {
    return;
  }
  auto& word = static_cast<LifePage*>(page)->words[offered->offer.word];
  pthread_t thread{};
  bool runs = false;
  {
    const BlockedSignals blocked;
    runs = ::pthread_create(&thread, nullptr, hold, &word) == 0;
  }
  if (runs) {
    ::pthread_detach(thread);
  }
  while (runs && held.load() == 0) {
    futex_wait(held, 0, std::chrono::hours(1));
  }
}

}  // namespace

void hold_launcher_word() {
  static std::once_flag once;
  std::call_once(once, ask_and_hold);
}

}  // namespace muster::collective
