// SPDX-License-Identifier: Apache-2.0
#include "process/death_watch.hpp"

#include "base/futex.hpp"
#include "base/unix_socket.hpp"
#include "process/descendants.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr int kBacklog = 128;
constexpr std::size_t kStatBytesMax = 4096;

// Sealed: a worker that shrinks it would end us by SIGBUS.
UniqueFd make_page() {
  UniqueFd fd(::memfd_create("muster-life", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // F_SEAL_SEAL: nor can a worker seal it against writing.
  const bool made = fd && ::ftruncate(fd.get(), kLivenessPageBytes) == 0 &&
                    ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
  return made ? std::move(fd) : UniqueFd();
}

std::optional<ExitStatus> dying_status(pid_t pid) {
  if (!proc_is_ours()) {
    return std::nullopt;
  }
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, kStatBytesMax> text{};
  const auto count = fd ? ::read(fd.get(), text.data(), text.size()) : -1;
  return count > 0 ? parse_dying({text.data(), static_cast<std::size_t>(count)}) : std::nullopt;
}

}  // namespace

// The kernel sets the status of the whole process before any of its threads lets go of the words,
// and never takes it back. The same field holds the signal of a process that is stopped.
std::optional<ExitStatus> parse_dying(std::string_view stat) {
  constexpr int kExitCodeField = 52;
  const auto close = stat.rfind(')');
  if (close == std::string_view::npos || close + 2 >= stat.size()) {
    return std::nullopt;
  }
  stat.remove_prefix(close + 2);
  const char state = stat.front();
  for (int field = 3; field < kExitCodeField; ++field) {
    const auto blank = stat.find(' ');
    if (blank == std::string_view::npos) {
      return std::nullopt;
    }
    stat.remove_prefix(blank + 1);
  }
  // 0 also where we may not look: the kernel shows this field only to those who may trace the
  // process. It is then seen when it is reaped.
  int status = 0;
  const auto [end, error] = std::from_chars(stat.data(), stat.data() + stat.size(), status);
  if (error != std::errc{} || status <= 0 || state == 'T' || state == 't') {
    return std::nullopt;
  }
  constexpr int kSignalBits = 0x7f;
  constexpr int kCoreBit = 0x80;
  const int signo = status & kSignalBits;
  if (signo == 0) {
    return ExitStatus{.signaled = false, .value = status >> 8 & 0xff};
  }
  return ExitStatus{.signaled = true, .value = signo, .core_dumped = (status & kCoreBit) != 0};
}

DeathWatch::DeathWatch(Poller& poller, std::function<bool(pid_t)> is_worker)
    : poller_(poller), is_worker_(std::move(is_worker)) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const UnixAddress address = liveness_address(::getpid());
  if (socket && ::bind(socket.get(), address.raw(), address.size) == 0 &&
      ::listen(socket.get(), kBacklog) == 0 && poller_.watch_input(socket.get(), *this)) {
    asked_ = std::move(socket);
  }
}

DeathWatch::~DeathWatch() {
  poller_.forget(asked_.get());
  poller_.forget(news_.get());
  thread_.reset();
  if (page_ != nullptr) {
    ::munmap(page_, kLivenessPageBytes);
  }
}

// For the first worker that asks. False: this worker gets no word.
bool DeathWatch::begin() {
  if (std::exchange(begun_, true)) {
    return thread_ != nullptr;
  }
  memory_ = make_page();
  news_ = UniqueFd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!memory_ || !news_ || !poller_.watch_input(news_.get(), *this)) {
    return false;
  }
  void* const page =
      ::mmap(nullptr, kLivenessPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0);
  if (page == MAP_FAILED) {
    return false;
  }
  page_ = static_cast<LivenessPage*>(page);
  auto thread = DeathThread::start(*page_, news_.get());
  if (thread) {
    thread_ = std::move(*thread);
  }
  return thread_ != nullptr;
}

void DeathWatch::on_ready() {
  std::uint64_t news = 0;
  // Emptied before the words are read: a death after that makes it readable again.
  [[maybe_unused]] const auto taken = news_ ? ::read(news_.get(), &news, sizeof(news)) : 0;
  for (int i = 0; asked_ && i < kBacklog; ++i) {
    const UniqueFd asker(::accept4(asked_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (asker) {
      answer(asker.get());
      continue;
    }
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
      poller_.forget(asked_.get());  // no descriptor is left, and we would be asked for ever
      asked_.reset();
    }
    return;
  }
}

// Our own children only: a worker's helpers may die without harm to it.
void DeathWatch::answer(int asker) {
  // What the kernel knows of the one who connected, not what he says.
  const auto who = peer_of(asker);
  if (!who || !is_worker_(who->pid) || !begin()) {
    return;
  }
  if (const auto word = word_for(who->pid)) {
    const LivenessOffer offer{kLivenessVersion, *word};
    const int page = memory_.get();
    // Who does not get it is seen when it is reaped.
    static_cast<void>(
        send_with_fds(asker, {reinterpret_cast<const char*>(&offer), sizeof(offer)}, {&page, 1}));
  }
}

// A program that was run in place of another asks again, with the word of the first one dead.
std::optional<std::uint32_t> DeathWatch::word_for(pid_t pid) {
  auto found = std::ranges::find(holders_, pid, &Holder::pid);
  if (found == holders_.end()) {
    found = std::ranges::find(holders_, 0, &Holder::pid);
  }
  if (found == holders_.end()) {
    return std::nullopt;
  }
  *found = Holder{pid, false};
  const auto index = static_cast<std::size_t>(found - holders_.begin());
  // Before it is offered: the worker stores its thread's id when it has the page.
  page_->words[index].store(0);
  page_->first_dead.store(0);  // who died before was of an earlier attempt
  return static_cast<std::uint32_t>(index);
}

std::vector<Dying> DeathWatch::take_dying() {
  std::vector<Dying> out;
  for (std::size_t i = 0; page_ != nullptr && i < kLivenessWords; ++i) {
    Holder& holder = holders_[i];
    if (holder.pid == 0 || holder.seen || (page_->words[i].load() & kOwnerDied) == 0) {
      continue;
    }
    holder.seen = true;
    if (const auto status = dying_status(holder.pid)) {
      out.push_back(Dying{holder.pid, *status});
    }
  }
  std::ranges::stable_partition(out, [](const Dying& one) { return one.status.signaled; });
  if (!out.empty()) {
    note_failure(out.front().pid);
  }
  return out;
}

void DeathWatch::note_failure(pid_t pid) {
  if (page_ != nullptr && page_->first_dead.load() == 0) {
    page_->first_dead.store(static_cast<std::uint32_t>(pid));
  }
}

void DeathWatch::reaped(pid_t pid, const ExitStatus& status) {
  const auto found = std::ranges::find(holders_, pid, &Holder::pid);
  if (found == holders_.end()) {
    return;
  }
  if (!status.success()) {
    note_failure(pid);
  }
  *found = Holder{};
}

}  // namespace muster
