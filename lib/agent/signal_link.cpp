// SPDX-License-Identifier: Apache-2.0
#include "agent/signal_link.hpp"

#include <asio/buffer.hpp>

#include <cstring>

#include <unistd.h>

namespace muster {

// If the pipe is full, the process is killed at the end of the job like any other leftover.
void SignalLink::spare_at_end(pid_t pid) const {
  [[maybe_unused]] const auto written = ::write(outlives_.get(), &pid, sizeof(pid));
}

void SignalLink::read() {
  link_.async_read_some(asio::buffer(notices_.data() + noticed_, notices_.size() - noticed_),
                        [this](const asio::error_code& error, std::size_t bytes) {
                          if (error == asio::error::operation_aborted) {
                            return;
                          }
                          if (error) {
                            lost_();
                            return;
                          }
                          take_notices(noticed_ + bytes);
                          read();
                        });
}

void SignalLink::take_notices(std::size_t bytes) {
  std::size_t at = 0;
  for (; at + sizeof(SignalNotice) <= bytes; at += sizeof(SignalNotice)) {
    SignalNotice notice;
    std::memcpy(&notice, notices_.data() + at, sizeof(notice));
    take_(notice);
  }
  noticed_ = bytes - at;
  std::memmove(notices_.data(), notices_.data() + at, noticed_);
}

}  // namespace muster
