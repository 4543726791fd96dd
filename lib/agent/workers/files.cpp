// SPDX-License-Identifier: Apache-2.0
#include "agent/workers/files.hpp"

#include "base/fd.hpp"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace muster {

std::string read_some(const std::string& path, std::size_t bytes_max) {
  // O_NONBLOCK: if another program created a pipe at this path, open() must not block until its
  // other end is opened.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));

  struct stat facts {};

  if (!fd || ::fstat(fd.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) {
    return {};
  }
  std::string text(std::min(bytes_max, static_cast<std::size_t>(facts.st_size)), '\0');
  const auto count = ::read(fd.get(), text.data(), text.size());
  text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  return text;
}

Result<void> write_file(const std::string& path, std::string_view text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd) {
    return std::unexpected(system_error("cannot write '" + path + "'", errno));
  }
  while (!text.empty()) {
    const auto count = ::write(fd.get(), text.data(), text.size());
    if (count < 0 && errno != EINTR) {
      return std::unexpected(system_error("cannot write '" + path + "'", errno));
    }
    text.remove_prefix(count < 0 ? 0 : static_cast<std::size_t>(count));
  }
  return {};
}

Result<void> make_pipe(const std::string& path) {
  constexpr mode_t kOwnerOnly = 0600;
  if (::mkfifo(path.c_str(), kOwnerOnly) == 0) {
    return {};
  }
  const int why = errno;

  struct stat facts {};

  const bool is_ours = why == EEXIST && ::lstat(path.c_str(), &facts) == 0 &&
                       S_ISFIFO(facts.st_mode) && facts.st_uid == ::geteuid();
  return is_ours ? Result<void>{}
                 : std::unexpected(system_error("cannot create the named pipe " + path, why));
}

}  // namespace muster
