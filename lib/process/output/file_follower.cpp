// SPDX-License-Identifier: Apache-2.0
#include "process/output/file_follower.hpp"

#include <array>
#include <cstring>
#include <string>
#include <utility>

#include <sys/inotify.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr long kTimerNanoseconds = 50'000'000;

}  // namespace

FileFollower::FileFollower(Poller& poller, std::function<void(OutputSource&)> on_change)
    : poller_(poller), on_change_(std::move(on_change)) {}

FileFollower::~FileFollower() {
  forget_all();
}

void FileFollower::open() {
  opened_ = true;
  inotify_ = UniqueFd(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (inotify_ && !poller_.watch_input(inotify_.get(), *this)) {
    inotify_.reset();
  }
}

void FileFollower::open_timer() {
  timer_ = UniqueFd(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  itimerspec every{};
  every.it_interval.tv_nsec = kTimerNanoseconds;
  every.it_value.tv_nsec = kTimerNanoseconds;
  if (timer_ && ::timerfd_settime(timer_.get(), 0, &every, nullptr) == 0) {
    // If this fails too, the file is read at the end of the attempt.
    [[maybe_unused]] const auto watched = poller_.watch_input(timer_.get(), *this);
  }
}

void FileFollower::arm(OutputSource& source) {
  if (!opened_) {
    open();
  }
  // Watch the file through its descriptor, because the file may have been renamed or removed.
  const std::string file = "/proc/self/fd/" + std::to_string(source.setup().file->fd());
  const int watch =
      inotify_ ? ::inotify_add_watch(inotify_.get(), file.c_str(), IN_MODIFY | IN_ONESHOT) : -1;
  if (watch >= 0) {
    watches_[watch] = &source;
    return;
  }
  unwatched_.insert(&source);
  if (!timer_) {
    open_timer();
  }
}

void FileFollower::forget(const OutputSource& source) {
  std::erase_if(watches_, [&](const auto& watch) { return watch.second == &source; });
  std::erase_if(unwatched_, [&](const OutputSource* one) { return one == &source; });
}

void FileFollower::forget_all() {
  for (UniqueFd* fd : {&inotify_, &timer_}) {
    if (*fd) {
      poller_.forget(fd->get());
      fd->reset();
    }
  }
  opened_ = false;
  watches_.clear();
  unwatched_.clear();
}

void FileFollower::on_ready() {
  alignas(inotify_event) std::array<char, 8192> events{};
  const auto count = inotify_ ? ::read(inotify_.get(), events.data(), events.size()) : -1;
  for (ssize_t at = 0; at + static_cast<ssize_t>(sizeof(inotify_event)) <= count;) {
    inotify_event event{};
    std::memcpy(&event, events.data() + at, sizeof(event));
    at += static_cast<ssize_t>(sizeof(event) + event.len);
    const auto found = watches_.find(event.wd);
    if ((event.mask & IN_MODIFY) != 0 && found != watches_.end()) {
      OutputSource& source = *found->second;
      watches_.erase(found);
      on_change_(source);
    }
  }
  std::uint64_t ticks = 0;
  if (timer_ && ::read(timer_.get(), &ticks, sizeof(ticks)) > 0) {
    for (OutputSource* source : std::exchange(unwatched_, {})) {
      on_change_(*source);
    }
  }
}

}  // namespace muster
