// SPDX-License-Identifier: Apache-2.0
#include "collective/launcher_word.hpp"

#include "base/fd.hpp"
#include "base/life_page.hpp"
#include "collective/futex.hpp"
#include "collective/segment_page.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <mutex>
#include <optional>

#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

namespace muster::collective {
namespace {

static_assert(kLifeOwnerDied == kOwnerDied && kLifeHasWaiters == kHasWaiters);

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
  const LifeAddress address = life_address(parent);
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd || ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof(timeval)) != 0 ||
      ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(timeval)) != 0 ||
      ::connect(fd.get(), address.raw(), address.size) != 0) {
    return {};
  }
  ucred who{};
  socklen_t size = sizeof(who);
  const bool ours =
      ::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.pid == parent;
  return ours ? std::move(fd) : UniqueFd();
}

std::optional<Offered> ask_launcher() {
  const UniqueFd from = reach_launcher();
  if (!from) {
    return std::nullopt;
  }
  Offered out;
  iovec data{&out.offer, sizeof(out.offer)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const auto got = ::recvmsg(from.get(), &message, MSG_CMSG_CLOEXEC);
  const cmsghdr* const part = got > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (part == nullptr || part->cmsg_type != SCM_RIGHTS || part->cmsg_len != CMSG_LEN(sizeof(int))) {
    return std::nullopt;
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(part), sizeof(fd));
  out.memory = UniqueFd(fd);
  const bool known =
      got == sizeof(out.offer) && out.offer.version == kLifeVersion && out.offer.word < kLifeWords;
  return known ? std::optional(std::move(out)) : std::nullopt;
}

std::atomic<std::uint32_t> held{0};

// Never left: the kernel marks the word when the process ends, however it does.
void* hold(void* offered) {
  auto& word = *static_cast<std::uint32_t*>(offered);
  ::pthread_setname_np(::pthread_self(), "muster-life");
  run_promptly();
  head.offset = reinterpret_cast<char*>(&word) - reinterpret_cast<char*>(&node);
  // In place of glibc's own list: this thread takes no robust mutex.
  ::syscall(SYS_set_robust_list, &head, sizeof(head));
  node.next = &head.first;
  head.first.next = &node;
  const std::atomic_ref<std::uint32_t> life(word);
  life.store(static_cast<std::uint32_t>(::gettid()) | kHasWaiters);
  ::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
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
  std::uint32_t& word = static_cast<LifePage*>(page)->words[offered->offer.word];
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const bool runs = ::pthread_create(&thread, nullptr, hold, &word) == 0;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
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
