// SPDX-License-Identifier: Apache-2.0
#include "trust/token_file.hpp"

#include "base/check.hpp"
#include "base/fd.hpp"
#include "base/plural.hpp"
#include "base/random.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

namespace muster {
namespace {

// Without this, a core dump, or another process of this user that attaches with ptrace, would
// expose the token and the keys derived from it. Child processes are not affected.
void keep_memory_private() {
  MUSTER_CHECK(::prctl(PR_SET_DUMPABLE, 0) == 0);
}

constexpr long kOverlayFileSystem = 0x794c7630;

constexpr const char* kHowElse = "pass the same --token-file on all nodes, or --token=none";

// Mode 0400 works only for pods that run as root.
constexpr const char* kPodSecret = "For a pod's secret, set fsGroup and defaultMode: 0440";

Error unusable(const std::string& path, const std::string& why) {
  return Error{Errc::usage, fmt::format("cannot use the token file {}: {}", path, why)};
}

TokenFileFacts facts_of(const std::string& path, int fd) {
  TokenFileFacts out;

  struct stat file {};

  struct stat link {};

  MUSTER_CHECK(::fstat(fd, &file) == 0);
  out.is_regular = S_ISREG(file.st_mode);
  out.owner = file.st_uid;
  out.mode = file.st_mode & 07777U;
  if (::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode)) {
    out.link_owner = link.st_uid;
  }
  return out;
}

Result<std::string> read_all(const std::string& path, int fd) {
  std::array<char, kMaxTokenBytes + 2> buffer;  // a newline, plus one byte to detect longer files
  std::size_t size = 0;
  while (size < buffer.size()) {
    const auto count = ::read(fd, buffer.data() + size, buffer.size() - size);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return std::unexpected(unusable(path, errno_text(errno)));
    }
    if (count == 0) {
      break;
    }
    size += static_cast<std::size_t>(count);
  }
  auto token = take_token({buffer.data(), size});
  if (!token) {
    return std::unexpected(unusable(path, token.error().message));
  }
  return token;
}

// The checks are made on the opened file. Without O_NONBLOCK, opening a named pipe would block
// until a writer opens it.
UniqueFd open_token(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

Result<std::string> read_opened(const std::string& path, int fd, bool is_shared = false) {
  TokenFileFacts facts = facts_of(path, fd);
  facts.is_shared = is_shared;
  if (const auto fault = fault_of_token_file(facts, ::geteuid()); !fault.empty()) {
    return std::unexpected(unusable(path, fault));
  }
  return read_all(path, fd);
}

std::string parent_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

// The directory itself if it exists, otherwise its nearest existing ancestor.
std::string existing_part(std::string folder) {
  struct stat facts {};

  while (::stat(folder.c_str(), &facts) != 0 && folder != "/") {
    folder = parent_of(folder);
  }
  return folder;
}

// A container's own file system layer is not shared, so each node would create a different token
// there.
bool is_containers_own(const std::string& folder) {
  struct statfs facts {};

  return ::statfs(existing_part(folder).c_str(), &facts) == 0 &&
         static_cast<long>(facts.f_type) == kOverlayFileSystem;
}

// The reason why this directory must not be used. For example, HOME is still /root although muster
// runs as another user. Empty if the directory may be used.
std::string fault_of_folder(const std::string& folder) {
  struct stat facts {};

  const std::string nearest = existing_part(folder);
  if (::stat(nearest.c_str(), &facts) != 0 || ::access(nearest.c_str(), X_OK) != 0) {
    return fmt::format("{} is not accessible", nearest);
  }
  return facts.st_uid == ::geteuid() || facts.st_uid == 0
             ? ""
             : fmt::format("{} belongs to user {}", nearest, facts.st_uid);
}

// Returns 0 or the errno. Creates directories with mode 0700, as the XDG specification requires.
int make_folders(const std::string& folder) {
  for (auto at = folder.find('/', 1); at != std::string::npos; at = folder.find('/', at + 1)) {
    static_cast<void>(::mkdir(folder.substr(0, at).c_str(), 0700));
  }
  return ::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST ? 0 : errno;
}

int write_new(const std::string& path, const std::string& text) {
  const UniqueFd fd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd || ::fchmod(fd.get(), 0600) != 0) {
    return errno;
  }
  const auto written = ::write(fd.get(), text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size())) {
    return written < 0 ? errno : ENOSPC;
  }
  return ::fsync(fd.get()) == 0 ? 0 : errno;
}

// Publishes the file atomically and only once: if another writer was first, its file is kept.
// Returns 0 or the errno.
int publish(const std::string& from, const std::string& to) {
  if (::link(from.c_str(), to.c_str()) == 0 || errno == EEXIST) {
    return 0;
  }
  // Fallback for file systems that do not support hard links.
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0 ||
      errno == EEXIST) {
    return 0;
  }
  return errno;
}

int make_file(const std::string& path) {
  if (const int why = make_folders(parent_of(path)); why != 0) {
    return why;
  }
  const std::string fresh = path + "." + make_token().substr(0, 16);
  int why = write_new(fresh, make_token() + "\n");
  if (why == 0) {
    why = publish(fresh, path);
  }
  static_cast<void>(::unlink(fresh.c_str()));
  return why;
}

bool is_local(int fd) {
  struct statfs facts {};

  return ::fstatfs(fd, &facts) == 0 &&
         !is_network_file_system(static_cast<std::uint32_t>(facts.f_type));
}

Token none(const std::string& path, const std::string& why) {
  return {"", fmt::format("did not create {}: {}; {}", path, why, kHowElse), true};
}

Result<Token> read_home(const TokenSource& source) {
  if (const auto fault = fault_of_folder(parent_of(source.path)); !fault.empty()) {
    return none(source.path, fault);
  }
  UniqueFd fd = open_token(source.path);
  if (!fd && (errno == ENOENT || errno == ENOTDIR)) {
    if (!source.why_not_made.empty()) {
      return none(source.path, source.why_not_made);
    }
    if (is_containers_own(parent_of(source.path))) {
      return none(source.path, "this directory is local to the container");
    }
    if (const int why = make_file(source.path); why != 0) {
      return none(source.path, errno_text(why));
    }
    fd = open_token(source.path);
  }
  if (!fd) {
    return std::unexpected(unusable(source.path, errno_text(errno)));
  }
  auto secret = read_opened(source.path, fd.get());
  MUSTER_RETURN_IF_ERROR(secret);
  return Token{std::move(*secret), "", is_local(fd.get())};
}

}  // namespace

// The magic numbers are from statfs(2), <linux/magic.h>, and the sources of file systems outside
// the Linux tree. FUSE and virtiofs are included because home directories on them are usually on a
// server.
bool is_network_file_system(std::uint32_t type) {
  constexpr std::array kTypes{
      0x00006969U,  // NFS
      0x0000517bU,  // SMB
      0xfe534d42U,  // SMB 2
      0xff534d42U,  // CIFS
      0x0bd00bd0U,  // Lustre
      0x47504653U,  // GPFS
      0x19830326U,  // BeeGFS
      0x00c36400U,  // CephFS
      0x01021997U,  // 9p
      0x5346414fU,  // AFS
      0x6b414653U,  // kAFS
      0x73757245U,  // Coda
      0x20030528U,  // OrangeFS
      0xaad7aaeaU,  // PanFS
      0x01161970U,  // GFS2
      0x7461636fU,  // OCFS2
      0x786f4256U,  // VirtualBox shared folders
      0x65735546U,  // FUSE
      0x6a656a63U,  // virtiofs
  };
  return std::ranges::find(kTypes, type) != kTypes.end();
}

std::string fault_of_token_file(const TokenFileFacts& facts, uid_t self) {
  const auto is_strange = [self](uid_t owner) { return owner != self && owner != 0; };
  if (!facts.is_regular) {
    return "not a regular file";
  }
  if (facts.is_shared) {
    return "";
  }
  if (is_strange(facts.owner)) {
    return fmt::format("it belongs to user {}, but must belong to you or root", facts.owner);
  }
  if (facts.link_owner && is_strange(*facts.link_owner)) {
    return fmt::format("it is a symbolic link that belongs to user {}", *facts.link_owner);
  }
  // If a system provides a secret to a group, as in a pod, the file belongs to root.
  const mode_t forbidden = facts.owner == 0 ? 0027U : 0077U;
  if ((facts.mode & forbidden) != 0) {
    return fmt::format(
        "other users can access it (mode {:04o}). Run chmod 600 on it. {}. If its mount "
        "cannot change modes (cifs), pass FILE,shared",
        facts.mode,
        kPodSecret);
  }
  return "";
}

Result<std::string> take_token(std::string_view content) {
  while (content.ends_with('\n') || content.ends_with('\r')) {
    content.remove_suffix(1);
  }
  if (content.size() > kMaxTokenBytes) {
    return failure(Errc::usage, fmt::format("it is longer than {} bytes", kMaxTokenBytes));
  }
  if (content.size() < kMinTokenBytes) {
    return failure(Errc::usage,
                   fmt::format("it has {}, but a token needs at least {}. "
                               "Create one with openssl rand -hex 32",
                               counted(content.size(), "byte"),
                               kMinTokenBytes));
  }
  return std::string(content);
}

Result<Token> read_token(const TokenSource& source) {
  if (source.from == TokenFrom::nowhere) {
    return Token{"", source.why_none, !source.is_off && source.munge != MungeUse::demanded};
  }
  keep_memory_private();
  if (source.from == TokenFrom::home) {
    return read_home(source);
  }
  const UniqueFd fd = open_token(source.path);
  if (!fd) {
    const int error = errno;
    const std::string why = errno_text(error);
    return std::unexpected(
        unusable(source.path, error == EACCES ? fmt::format("{}. {}", why, kPodSecret) : why));
  }
  auto secret = read_opened(source.path, fd.get(), source.is_shared);
  MUSTER_RETURN_IF_ERROR(secret);
  return Token{std::move(*secret), ""};
}

std::string make_token() {
  keep_memory_private();
  return random_hex(kMadeTokenBytes);
}

}  // namespace muster
