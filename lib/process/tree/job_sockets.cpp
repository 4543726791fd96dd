// SPDX-License-Identifier: Apache-2.0
#include "process/tree/job_sockets.hpp"

#include "base/fd.hpp"
#include "process/tree/descendants.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <string>
#include <string_view>

#include <dirent.h>
#include <unistd.h>

namespace muster {
namespace {

// At this size the cache is cleared, because it also contains sockets of dead processes.
constexpr std::size_t kSeenMax = 65536;

constexpr std::string_view kSocket = "socket:[";

// The inode of the socket behind a /proc/PID/fd link; 0 if the link is not a socket.
std::uint64_t inode_at(int folder, const char* name) {
  std::array<char, 64> target{};
  const auto size = ::readlinkat(folder, name, target.data(), target.size());
  const std::string_view text(target.data(), size < 0 ? 0 : static_cast<std::size_t>(size));
  std::uint64_t inode = 0;
  if (text.starts_with(kSocket)) {
    std::from_chars(text.data() + kSocket.size(), text.data() + text.size(), inode);
  }
  return inode;
}

// False if we lack permission. A process that has exited in the meantime has no sockets.
bool add_sockets_of(pid_t pid, std::set<std::uint64_t>& out) {
  DIR* const folder = ::opendir(("/proc/" + std::to_string(pid) + "/fd").c_str());
  if (folder == nullptr) {
    return errno == ENOENT || errno == ESRCH;
  }
  // NOLINTNEXTLINE(concurrency-mt-unsafe): only this call reads the directory
  while (const dirent* entry = ::readdir(folder)) {
    if (const auto inode = inode_at(::dirfd(folder), entry->d_name); inode != 0) {
      out.insert(inode);
    }
  }
  ::closedir(folder);
  return true;
}

}  // namespace

JobSockets::Found JobSockets::find(std::uint64_t inode) {
  if (seen_.contains(inode)) {
    return Found::yes;
  }
  if (!proc_is_ours()) {
    return Found::cannot_tell;
  }
  if (seen_.size() > kSeenMax) {
    seen_.clear();
  }
  bool saw_all = true;
  for (const ProcessRow& row : descendants()) {
    saw_all = add_sockets_of(row.pid, seen_) && saw_all;
    if (seen_.contains(inode)) {
      return Found::yes;
    }
  }
  return saw_all ? Found::no : Found::cannot_tell;
}

}  // namespace muster
