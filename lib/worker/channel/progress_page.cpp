// SPDX-License-Identifier: Apache-2.0
#include "worker/channel/progress_page.hpp"

#include "base/clock.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace muster::channel {
namespace {

Result<ProgressWords*> map_words(int fd) {
  void* const page = ::mmap(nullptr, kProgressPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) {
    return std::unexpected(system_error("cannot map a worker's progress page", errno));
  }
  return static_cast<ProgressWords*>(page);
}

}  // namespace

// F_SEAL_SEAL prevents a worker from adding a write seal.
Result<UniqueFd> sealed_memory(const char* name, std::size_t bytes) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return std::unexpected(system_error("cannot create memory that a worker shares", errno));
  }
  return fd;
}

Result<ProgressPage> ProgressPage::make() {
  auto fd = sealed_memory("muster-progress", kProgressPageBytes);
  if (!fd) {
    return std::unexpected(fd.error());
  }
  const auto words = map_words(fd->get());
  if (!words) {
    return std::unexpected(words.error());
  }
  return ProgressPage(std::move(*fd), *words);
}

Result<ProgressPage> ProgressPage::map(UniqueFd fd) {
  struct stat status {};

  if (::fstat(fd.get(), &status) != 0 || status.st_size < static_cast<off_t>(kProgressPageBytes)) {
    return failure(Errc::protocol, "the progress descriptor is too small for a page");
  }
  const auto words = map_words(fd.get());
  if (!words) {
    return std::unexpected(words.error());
  }
  return ProgressPage(std::move(fd), *words);
}

ProgressPage::ProgressPage(ProgressPage&& other) noexcept
    : fd_(std::move(other.fd_)),
      words_(std::exchange(other.words_, nullptr)),
      polls_counted_(other.polls_counted_),
      counted_at_(other.counted_at_) {}

ProgressPage& ProgressPage::operator=(ProgressPage&& other) noexcept {
  if (this != &other) {
    unmap();
    fd_ = std::move(other.fd_);
    words_ = std::exchange(other.words_, nullptr);
    polls_counted_ = other.polls_counted_;
    counted_at_ = other.counted_at_;
  }
  return *this;
}

ProgressPage::~ProgressPage() {
  unmap();
}

void ProgressPage::unmap() {
  if (words_ != nullptr) {
    ::munmap(words_, kProgressPageBytes);
  }
}

std::optional<StepTold> ProgressPage::load(TimePoint started, TimePoint now) const {
  const std::uint64_t time = words_->time.load(std::memory_order_acquire);
  if (time == 0) {
    return std::nullopt;
  }
  const auto most = static_cast<std::uint64_t>(now.time_since_epoch().count());
  const TimePoint told{Duration(static_cast<Duration::rep>(std::min(time, most)))};
  return StepTold{words_->step.load(std::memory_order_relaxed), std::max(told, started)};
}

Duration ProgressPage::longest_pause() const {
  const std::uint64_t pause = words_->longest_pause.load(std::memory_order_relaxed);
  return Duration(
      static_cast<Duration::rep>(std::min(pause, static_cast<std::uint64_t>(kPauseMax.count()))));
}

// The agent orders its store of the notice before its load of the step with a barrier of all
// processes, so a compiler barrier is enough here (CHANNEL.md, "Preemption").
bool ProgressPage::poll() {
  if (words_->time.load(std::memory_order_relaxed) == counted_at_) {
    store(polls_counted_++, steady_now());
    counted_at_ = words_->time.load(std::memory_order_relaxed);
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return words_->notice.load(std::memory_order_acquire) != 0;
}

std::optional<TimePoint> ProgressPage::deadline() const {
  if (words_->notice.load(std::memory_order_acquire) == 0) {
    return std::nullopt;
  }
  return TimePoint(
      Duration(static_cast<Duration::rep>(words_->deadline.load(std::memory_order_relaxed))));
}

std::optional<std::uint64_t> ProgressPage::step() const {
  if (words_->time.load(std::memory_order_acquire) == 0) {
    return std::nullopt;
  }
  return words_->step.load(std::memory_order_relaxed);
}

}  // namespace muster::channel
