// SPDX-License-Identifier: Apache-2.0
#include "process/output/unread_input.hpp"

#include "base/logger.hpp"

#include <utility>

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace muster {

UnreadInput::UnreadInput(int fd, Poller& poller, std::function<void()> on_found)
    : fd_(fd), poller_(poller), on_found_(std::move(on_found)) {
  struct stat facts {};

  if (::fstat(fd, &facts) != 0) {
    return;
  }
  if (S_ISREG(facts.st_mode) && facts.st_size > ::lseek(fd, 0, SEEK_CUR)) {
    on_found_();
  } else if (S_ISFIFO(facts.st_mode)) {
    // If this fails, no warning is printed, which is harmless.
    [[maybe_unused]] const auto watched = poller_.watch_input(fd, *this);
  }
}

UnreadInput::~UnreadInput() {
  poller_.forget(fd_);
}

// A closed pipe without data is also readable.
void UnreadInput::on_ready() {
  int bytes = 0;
  const bool any = ::ioctl(fd_, FIONREAD, &bytes) == 0 && bytes > 0;
  poller_.forget(fd_);
  if (any) {
    on_found_();
  }
}

void warn_of_unread_input() {
  log_warning(
      "standard input has data, but no worker reads it because there are several workers. Pass "
      "--stdin-rank=N to select one, or --stdin-rank=none to ignore it");
}

}  // namespace muster
