// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/node/round_record.hpp"

#include "base/clock.hpp"
#include "rendezvous/wire/round_limits.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace muster {
namespace {

// Of linux/magic.h, and of file systems outside the kernel's tree.
constexpr std::array<long, 6> kRemote{
    0x6969, 0xFF534D42, 0xFE534D42, 0x0BD00BD0, 0x65735546, 0x47504653};

constexpr std::size_t kRecordBytesMax = std::size_t{kMaxListsBody} + 4096;

// The user's own folders, as the XDG specification wants them.
void make_folders(const std::string& folder) {
  for (auto at = folder.find('/', 1); at != std::string::npos; at = folder.find('/', at + 1)) {
    static_cast<void>(::mkdir(folder.substr(0, at).c_str(), 0700));
  }
  static_cast<void>(::mkdir(folder.c_str(), 0700));
}

// Whoever ended in good order has removed the file that we may have opened.
bool is_still_there(const UniqueFd& fd, const std::string& path) {
  struct stat held {};

  struct stat named {};

  return ::fstat(fd.get(), &held) == 0 && ::stat(path.c_str(), &named) == 0 &&
         held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

UniqueFd lock(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 || !is_still_there(fd, path)) {
    fd.reset();
  }
  return fd;
}

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

std::optional<std::string> contents(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  std::string bytes;
  std::array<char, 65536> part{};
  while (fd && bytes.size() <= kRecordBytesMax) {
    const auto got = ::read(fd.get(), part.data(), part.size());
    if (got <= 0) {
      return got == 0 ? std::optional(std::move(bytes)) : std::nullopt;
    }
    bytes.append(part.data(), static_cast<std::size_t>(got));
  }
  return std::nullopt;
}

// 0 or the errno.
int write_all(const std::string& path, const std::string& bytes, bool durable) {
  const UniqueFd fd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  for (std::size_t done = 0; fd && done < bytes.size();) {
    const auto wrote = ::write(fd.get(), bytes.data() + done, bytes.size() - done);
    if (wrote < 0 && errno != EINTR) {
      return errno;
    }
    done += static_cast<std::size_t>(std::max<ssize_t>(wrote, 0));
  }
  return fd && (!durable || ::fsync(fd.get()) == 0) ? 0 : errno;
}

int sync_folder(const std::string& path) {
  const std::string folder = path.substr(0, path.rfind('/'));
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return fd && ::fsync(fd.get()) == 0 ? 0 : errno;
}

}  // namespace

RoundRecord RoundRecord::open(const std::string& folder,
                              const std::string& name,
                              Duration fresh_for) {
  RoundRecord found;
  make_folders(folder);
  for (int slot = 0; slot < kRecordSlotsMax; ++slot) {
    const std::string path = folder + "/" + name + "." + std::to_string(slot);
    const bool has_record = exists(path);
    if (found.is_on() && !has_record) {
      continue;
    }
    UniqueFd fd = lock(path + ".lock");
    if (fd) {
      found.path_ = path;
      found.lock_ = std::move(fd);
    } else if (errno != EWOULDBLOCK && !has_record) {
      break;
    }
    if (found.is_on() && has_record) {
      break;
    }
  }

  struct statfs facts {};

  found.fresh_for_ = fresh_for;
  found.is_remote_ = ::statfs(folder.c_str(), &facts) != 0 ||
                     std::ranges::find(kRemote, static_cast<long>(facts.f_type)) != kRemote.end();
  return found;
}

std::optional<Memory> RoundRecord::read() const {
  struct stat facts {};

  if (!is_on() || ::stat(path_.c_str(), &facts) != 0) {
    return std::nullopt;
  }
  const double age = wall_now_seconds() - static_cast<double>(facts.st_mtim.tv_sec);
  const auto bytes = contents(path_);
  if (!bytes || age > std::chrono::duration<double>(fresh_for_).count()) {
    return std::nullopt;
  }
  auto memory = decode_memory(*bytes);
  return memory ? std::optional(std::move(*memory)) : std::nullopt;
}

Result<void> RoundRecord::write(const Memory& memory, bool durable) const {
  const auto bytes = encode_memory(memory);
  if (!bytes) {
    return std::unexpected(bytes.error());
  }
  const std::string fresh = path_ + ".new";
  int why = write_all(fresh, *bytes, durable);
  if (why == 0 && std::rename(fresh.c_str(), path_.c_str()) != 0) {
    why = errno;
  }
  why = why == 0 && durable ? sync_folder(path_) : why;
  if (why != 0) {
    static_cast<void>(::unlink(fresh.c_str()));
    return std::unexpected(system_error("cannot record the round in " + path_, why));
  }
  return {};
}

void RoundRecord::touch() const {
  if (is_on() && !is_remote_) {
    static_cast<void>(::utimensat(AT_FDCWD, path_.c_str(), nullptr, 0));
  }
}

bool RoundRecord::remove() const {
  if (!is_on()) {
    return true;
  }
  const bool gone = ::unlink(path_.c_str()) == 0 || errno == ENOENT;
  if (gone) {
    static_cast<void>(::unlink((path_ + ".lock").c_str()));
  }
  return gone;
}

}  // namespace muster
