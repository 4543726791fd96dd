// SPDX-License-Identifier: Apache-2.0
#include "process/deaths/death_watch.hpp"

#include "base/futex.hpp"
#include "base/unix_socket.hpp"
#include "process/tree/descendants.hpp"
#include "process/values/proc_file.hpp"

#include <climits>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
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

// Seal the page, because a worker that shrinks it would crash this process with SIGBUS.
UniqueFd make_page() {
  UniqueFd fd(::memfd_create("muster-life", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // F_SEAL_SEAL also prevents workers from adding a write seal.
  const bool made = fd && ::ftruncate(fd.get(), kLivenessPageBytes) == 0 &&
                    ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
  return made ? std::move(fd) : UniqueFd();
}

constexpr int kStateField = 3;
constexpr int kFlagsField = 9;
constexpr int kPendingField = 31;  // pending signals of the main thread
constexpr int kExitCodeField = 52;

// The text of /proc/<pid>/stat from the given field (counted from 1) to the end; empty if that
// field is missing. The second field is the process name, which may contain any characters.
std::string_view from_field(std::string_view stat, int number) {
  const auto close = stat.rfind(')');
  if (close == std::string_view::npos || close + 2 >= stat.size()) {
    return {};
  }
  stat.remove_prefix(close + 2);
  for (int field = kStateField; field < number; ++field) {
    const auto blank = stat.find(' ');
    if (blank == std::string_view::npos) {
      return {};
    }
    stat.remove_prefix(blank + 1);
  }
  return stat;
}

std::optional<std::int64_t> number_in(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<Ending> parse_ending(std::string_view stat) {
  constexpr std::int64_t kExitingFlag = 0x4;  // PF_EXITING
  const std::string_view state = from_field(stat, kStateField);
  const auto flags = number_in(from_field(stat, kFlagsField));
  auto failure = parse_dying(stat);
  const bool is_zombie = !state.empty() && std::string_view("ZXx").contains(state.front());
  // A fatal signal is pending as SIGKILL in each thread until that thread runs.
  const auto pending = number_in(from_field(stat, kPendingField));
  const bool is_killed = pending && (*pending >> (SIGKILL - 1) & 1) != 0;
  const bool is_exiting = is_zombie || is_killed || (flags && (*flags & kExitingFlag) != 0);
  return failure || is_exiting ? std::optional(Ending{failure}) : std::nullopt;
}

std::optional<Ending> ending_of(pid_t pid) {
  return proc_is_ours()
             ? parse_ending(read_proc_file("/proc/" + std::to_string(pid) + "/stat", kStatBytesMax))
             : std::nullopt;
}

// The kernel sets the exit status of the whole process before it marks the liveness word of a dying
// thread, and never changes the status back. In a stopped process, the same field contains the stop
// signal.
std::optional<ExitStatus> parse_dying(std::string_view stat) {
  const std::string_view state = from_field(stat, kStateField);
  // The field is also 0 if we lack permission: the kernel shows it only to processes that may trace
  // the dying process. Its death is then detected when it is reaped.
  const auto found = number_in(from_field(stat, kExitCodeField));
  if (!found || *found <= 0 || *found > INT_MAX || state.front() == 'T' || state.front() == 't') {
    return std::nullopt;
  }
  const int status = static_cast<int>(*found);
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

// Called when the first worker requests a liveness word. Returns false if liveness words are not
// available. A worker's death is then detected only when the worker is reaped.
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
  // Drain the eventfd before reading the words, so that a later death makes it readable again.
  [[maybe_unused]] const auto taken = news_ ? ::read(news_.get(), &news, sizeof(news)) : 0;
  for (int i = 0; asked_ && i < kBacklog; ++i) {
    const UniqueFd asker(::accept4(asked_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (asker) {
      answer(asker.get());
      continue;
    }
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
      poller_.forget(asked_.get());  // out of descriptors: the loop would spin on accept()
      asked_.reset();
    }
    return;
  }
}

// Only our own children get a liveness word. A worker's helper processes may die without harming
// the worker.
void DeathWatch::answer(int asker) {
  // Use the peer's credentials from the kernel instead of trusting what the peer sends.
  const auto who = peer_of(asker);
  if (!who || !is_worker_(who->pid) || !begin()) {
    return;
  }
  if (const auto word = word_for(who->pid)) {
    const LivenessOffer offer{kLivenessVersion, *word};
    const int page = memory_.get();
    // If this fails, the worker's death is detected when it is reaped.
    static_cast<void>(
        send_with_fds(asker, {reinterpret_cast<const char*>(&offer), sizeof(offer)}, {&page, 1}));
  }
}

// A worker that has called exec requests a new liveness word; its old word is marked as dead.
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
  // Clear the word before offering it, because the worker stores its thread ID as soon as it has
  // the page.
  page_->words[index].store(0);
  page_->first_dead.store(0);  // earlier deaths belong to a previous attempt
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
    if (const auto ending = ending_of(holder.pid); ending && ending->failure) {
      out.push_back(Dying{holder.pid, *ending->failure});
    }
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
