// SPDX-License-Identifier: Apache-2.0
#include "process/loop/poller.hpp"

#include "base/check.hpp"

#include <array>
#include <cerrno>

#include <sys/epoll.h>

namespace muster {

Result<Poller> Poller::open() {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) {
    return std::unexpected(system_error("cannot create an epoll instance", errno));
  }
  return Poller(std::move(epoll));
}

Result<void> Poller::watch_input(int fd, Watcher& watcher) {
  return watch(fd, EPOLLIN, watcher);
}

Result<void> Poller::watch_room(int fd, Watcher& watcher) {
  return watch(fd, EPOLLOUT, watcher);
}

Result<void> Poller::watch(int fd, std::uint32_t events, Watcher& watcher) {
  MUSTER_CHECK(fd >= 0);
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return std::unexpected(system_error("cannot watch a descriptor", errno));
  }
  watchers_[fd] = &watcher;
  return {};
}

void Poller::forget(int fd) {
  if (watchers_.erase(fd) > 0) {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  }
}

void Poller::dispatch(int timeout_ms) {
  std::array<epoll_event, 64> events{};
  const int count =
      ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
  for (int i = 0; i < count; ++i) {
    // A watcher that was called earlier in this loop may have removed this watcher.
    const auto found = watchers_.find(events[static_cast<std::size_t>(i)].data.fd);
    if (found != watchers_.end()) {
      found->second->on_ready();
    }
  }
}

}  // namespace muster
