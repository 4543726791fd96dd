// SPDX-License-Identifier: Apache-2.0
#include "worker/channel/progress_page.hpp"

#include "base/clock.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string>
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

using NameWords = std::array<std::uint64_t, kNumberNameBytesMax / sizeof(std::uint64_t)>;

NameWords words_of(std::string_view name) {
  NameWords out{};
  std::memcpy(out.data(), name.data(), std::min(name.size(), kNumberNameBytesMax));
  return out;
}

NameWords load_name(const NumberWords& entry) {
  NameWords out{};
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = entry.name[i].load(std::memory_order_relaxed);
  }
  return out;
}

// Any bytes, because a worker may write to the page without our library.
std::string text_of(const NameWords& words) {
  std::string out(sizeof(words), '\0');
  std::memcpy(out.data(), words.data(), sizeof(words));
  return out.substr(0, out.find('\0'));
}

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '/' || c == '-';
}

}  // namespace

bool is_number_name(std::string_view name) {
  return !name.empty() && name.size() <= kNumberNameBytesMax &&
         std::ranges::all_of(name, is_name_character);
}

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

// The number of entries, which a worker may have overwritten with any value.
std::size_t ProgressPage::numbers_count() const {
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(words_->numbers_count.load(std::memory_order_acquire), kNumbersMax));
}

bool ProgressPage::store_number(std::string_view name, double number) {
  if (!is_number_name(name)) {
    return false;
  }
  const NameWords wanted = words_of(name);
  const std::size_t count = numbers_count();
  std::size_t at = 0;
  while (at < count && load_name(words_->numbers[at]) != wanted) {
    ++at;
  }
  if (at == kNumbersMax) {
    return false;
  }
  NumberWords& entry = words_->numbers[at];
  entry.number.store(std::bit_cast<std::uint64_t>(number), std::memory_order_relaxed);
  if (at == count) {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      entry.name[i].store(wanted[i], std::memory_order_relaxed);
    }
    words_->numbers_count.store(count + 1, std::memory_order_release);
  }
  return true;
}

std::vector<NamedNumber> ProgressPage::numbers() const {
  std::vector<NamedNumber> out;
  for (std::size_t i = 0; i < numbers_count(); ++i) {
    const NumberWords& entry = words_->numbers[i];
    std::string name = text_of(load_name(entry));
    if (is_number_name(name)) {
      out.push_back(
          {std::move(name), std::bit_cast<double>(entry.number.load(std::memory_order_relaxed))});
    }
  }
  return out;
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
