// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/node/record_file.hpp"

#include "base/clock.hpp"
#include "trust/token_file.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace muster {
namespace {

std::unexpected<Error> failed(std::string_view what, const std::string& path, int why) {
  return std::unexpected(system_error(fmt::format("cannot {} {}", what, path), why));
}

// False if the previous owner has removed the file, possibly between our open() and flock().
bool is_named(const UniqueFd& fd, const std::string& path) {
  struct stat held {};

  struct stat named {};

  return ::fstat(fd.get(), &held) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

Result<void> check_owner(const struct stat& facts, const std::string& path) {
  if (!S_ISREG(facts.st_mode)) {
    return failure(Errc::not_possible, path + " is not a regular file");
  }
  if (facts.st_uid != ::geteuid()) {
    return failure(Errc::not_possible, fmt::format("{} belongs to uid {}", path, facts.st_uid));
  }
  return {};
}

// Returns 0 or the errno.
int write_new(const std::string& path, const std::string& bytes, bool durable) {
  static_cast<void>(::unlink(path.c_str()));
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  for (std::size_t done = 0; fd && done < bytes.size();) {
    const auto wrote = ::write(fd.get(), bytes.data() + done, bytes.size() - done);
    if (wrote < 0 && errno != EINTR) {
      return errno;
    }
    done += static_cast<std::size_t>(std::max<ssize_t>(wrote, 0));
  }
  return fd && (!durable || ::fsync(fd.get()) == 0) ? 0 : errno;
}

constexpr double kDay = 24 * 3600;
constexpr double kMonth = 30 * kDay;

// Also true if the file does not exist.
bool is_older_than(double seconds, const std::string& path) {
  struct stat facts {};

  return ::lstat(path.c_str(), &facts) != 0 ||
         wall_now_seconds() - static_cast<double>(facts.st_mtim.tv_sec) > seconds;
}

bool is_old(const std::string& path) {
  return is_older_than(kMonth, path);
}

// Records the time in an empty file. True if the last time was less than a day ago.
bool was_done_today(const std::string& stamp) {
  if (!is_older_than(kDay, stamp)) {
    return true;
  }
  const UniqueFd fd(::open(stamp.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  static_cast<void>(fd && ::futimens(fd.get(), nullptr) == 0);  // best effort
  return false;
}

int sync_folder(const std::string& path) {
  const std::string folder = path.substr(0, path.rfind('/'));
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return fd && ::fsync(fd.get()) == 0 ? 0 : errno;
}

}  // namespace

// Creates nothing in another user's directory, for example if root runs with that user's HOME.
Result<void> make_state_folder(const std::string& folder) {
  struct stat facts {};

  std::string there = folder;
  while (::stat(there.c_str(), &facts) != 0 && there.rfind('/') > 0) {
    there.resize(there.rfind('/'));
  }
  if (there != folder && facts.st_uid != 0 && facts.st_uid != ::geteuid()) {
    return failure(
        Errc::not_possible,
        fmt::format("cannot create {}: {} belongs to uid {}", folder, there, facts.st_uid));
  }
  for (auto at = folder.find('/', 1); at != std::string::npos; at = folder.find('/', at + 1)) {
    static_cast<void>(::mkdir(folder.substr(0, at).c_str(), 0700));
  }
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return failed("create", folder, errno);
  }
  return ::access(folder.c_str(), W_OK | X_OK) == 0 ? Result<void>()
                                                    : failed("write to", folder, errno);
}

bool is_on_network(const std::string& folder) {
  struct statfs facts {};

  return ::statfs(folder.c_str(), &facts) != 0 ||
         is_network_file_system(static_cast<std::uint32_t>(facts.f_type));
}

Result<UniqueFd> lock_state_file(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));

  struct stat facts {};

  if (!fd || ::fstat(fd.get(), &facts) != 0) {
    return failed("open", path, errno);
  }
  MUSTER_RETURN_IF_ERROR(check_owner(facts, path));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK ? failure(Errc::exhausted, path + " is locked")
                                : failed("lock", path, errno);
  }
  return is_named(fd, path) ? Result<UniqueFd>(std::move(fd))
                            : failure(Errc::exhausted, path + " was removed");
}

Result<StateFile> read_state_file(const std::string& path, std::size_t most) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));

  struct stat facts {};

  if (!fd || ::fstat(fd.get(), &facts) != 0) {
    return errno == ENOENT ? failure(Errc::not_found, path + " does not exist")
                           : failed("read", path, errno);
  }
  MUSTER_RETURN_IF_ERROR(check_owner(facts, path));
  StateFile file;
  std::array<char, 65536> part{};
  while (const auto got = ::read(fd.get(), part.data(), part.size())) {
    if (got < 0) {
      return failed("read", path, errno);
    }
    file.bytes.append(part.data(), static_cast<std::size_t>(got));
    if (file.bytes.size() > most) {
      return failure(Errc::protocol, fmt::format("{} is longer than {} bytes", path, most));
    }
  }
  const double age = wall_now_seconds() - static_cast<double>(facts.st_mtim.tv_sec);
  file.age = std::chrono::seconds(std::llround(std::clamp(age, 0.0, 1e9)));
  return file;
}

void remove_old_state(const std::string& folder) {
  if (was_done_today(folder + ".swept")) {
    return;
  }
  std::error_code failed;
  std::filesystem::directory_iterator at(folder, failed);
  for (; !failed && at != std::filesystem::directory_iterator(); at.increment(failed)) {
    const std::string path = at->path().string();
    const std::string file = path.substr(0, path.rfind(kLockSuffix));
    if (!path.ends_with(kLockSuffix) || !is_old(path) || !is_old(file)) {
      continue;
    }
    if (const auto lock = lock_state_file(path)) {
      static_cast<void>(::unlink(file.c_str()));
      static_cast<void>(::unlink(path.c_str()));
    }
  }
}

Result<void> replace_state_file(const std::string& path, const std::string& bytes, bool durable) {
  const std::string fresh = path + ".new";
  int why = write_new(fresh, bytes, durable);
  if (why == 0 && std::rename(fresh.c_str(), path.c_str()) != 0) {
    why = errno;
  }
  why = why == 0 && durable ? sync_folder(path) : why;
  if (why != 0) {
    static_cast<void>(::unlink(fresh.c_str()));
    return failed("write", path, why);
  }
  return {};
}

}  // namespace muster
