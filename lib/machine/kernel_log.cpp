// SPDX-License-Identifier: Apache-2.0
#include "machine/kernel_log.hpp"

#include <array>
#include <cerrno>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

namespace muster {
namespace {

// The kernel's longest record (PRINTK_MESSAGE_MAX is 2048 with names and values; older kernels
// return up to 8192). With a shorter buffer, reading fails.
constexpr std::size_t kKernelRecordMax = 8192;

// "4,1234,5678,-;message\n KEY=value\n" becomes "message".
std::string message_of(std::string_view record) {
  const auto begin = record.find(';');
  if (begin == std::string_view::npos) {
    return {};
  }
  record.remove_prefix(begin + 1);
  return std::string(record.substr(0, record.find('\n')));
}

}  // namespace

KernelLog::KernelLog() : records_(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  if (records_ && ::lseek(records_.get(), 0, SEEK_END) < 0) {
    records_.reset();  // another file
  }
}

std::vector<std::string> KernelLog::read_new() {
  std::vector<std::string> lines;
  std::array<char, kKernelRecordMax> record{};
  for (std::size_t i = 0; records_ && i < kKernelLinesMax; ++i) {
    const ssize_t size = ::read(records_.get(), record.data(), record.size());
    if (size > 0) {
      lines.push_back(message_of({record.data(), static_cast<std::size_t>(size)}));
    } else if (size == 0 || (errno != EPIPE && errno != EINTR)) {
      break;  // EPIPE: newer records have overwritten the next one
    }
  }
  return lines;
}

}  // namespace muster
