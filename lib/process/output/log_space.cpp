// SPDX-License-Identifier: Apache-2.0
#include "process/output/log_space.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr time_t kCheckSeconds = 2;
constexpr std::size_t kProbeBytes = 4096;

bool is_full(int why) {
  return why == ENOSPC || why == EDQUOT;
}

// Opens an unnamed file if the file system supports it.
UniqueFd open_probe(const std::string& folder) {
  UniqueFd probe(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (probe || is_full(errno)) {
    return probe;
  }
  std::string path = folder + "/.space_XXXXXX";
  probe = UniqueFd(::mkostemp(path.data(), O_CLOEXEC));
  if (const int why = errno; probe) {
    ::unlink(path.c_str());
    errno = why;
  }
  return probe;
}

}  // namespace

int full_disk_error(const std::string& folder) {
  UniqueFd probe = open_probe(folder);
  if (!probe) {
    return is_full(errno) ? errno : 0;
  }
  // Write nonzero bytes, because a file system may store zeros as a hole.
  std::array<char, kProbeBytes> page;
  page.fill('x');
  int why = ::write(probe.get(), page.data(), page.size()) < 0 ? errno : 0;
  // NFS reports a failed write on close.
  if (::close(probe.release()) != 0 && why == 0) {
    why = errno;
  }
  return is_full(why) ? why : 0;
}

LogSpace::LogSpace(Poller& poller, std::function<void(const std::string&, int)> on_full)
    : poller_(poller), on_full_(std::move(on_full)) {}

LogSpace::~LogSpace() {
  stop_timer();
}

void LogSpace::note_file(const std::string& path) {
  folder_ = std::filesystem::path(path).parent_path();
  note_growth();
}

void LogSpace::note_growth() {
  if (done_ || timer_) {
    return;
  }
  timer_ = UniqueFd(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  itimerspec once{};
  once.it_value.tv_sec = kCheckSeconds;
  if (timer_ && ::timerfd_settime(timer_.get(), 0, &once, nullptr) == 0) {
    // If this fails, the check at the end of the attempt still takes place.
    [[maybe_unused]] const auto watched = poller_.watch_input(timer_.get(), *this);
  }
}

void LogSpace::check() {
  stop_timer();
  if (done_ || folder_.empty()) {
    return;
  }
  if (const int why = full_disk_error(folder_); why != 0) {
    done_ = true;
    on_full_(folder_, why);
  }
}

void LogSpace::on_ready() {
  check();
}

void LogSpace::stop_timer() {
  if (timer_) {
    poller_.forget(timer_.get());
    timer_.reset();
  }
}

}  // namespace muster
