// SPDX-License-Identifier: Apache-2.0
#include "trace_folder.hpp"

#include "base/clock.hpp"
#include "base/fd.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr mode_t kReadableByAll = 0755;

std::string name_of(const std::string& wanted) {
  std::string name = wanted;
  if (name.empty()) {
    name = "muster_profile_" + describe_wall_time(wall_now_seconds());
    std::ranges::replace(name, ':', '-');  // scp takes a colon for the end of a host's name
  }
  while (name.size() > 1 && name.ends_with('/')) {
    name.pop_back();
  }
  return name;
}

bool asks_daemon(pid_t worker) {
  std::ifstream file(fmt::format("/proc/{}/environ", worker), std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::string start(1, '\0');
  return (start + text).find(start + "KINETO_USE_DAEMON=") != std::string::npos;
}

// Works on the folder itself, because its name may be a link by now.
Result<void> give(const std::string& name, const struct stat& user) {
  const UniqueFd folder(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));

  struct stat facts {};

  if (!folder || ::fstat(folder.get(), &facts) != 0 || facts.st_uid != ::geteuid() ||
      ::fchown(folder.get(), user.st_uid, user.st_gid) != 0) {
    return std::unexpected(
        system_error("cannot change the owner of " + name + " to the job's user", errno));
  }
  return {};
}

}  // namespace

Result<TraceFolder> make_trace_folder(const std::string& wanted, pid_t worker) {
  TraceFolder out{.name = name_of(wanted)};
  const std::filesystem::path path(out.name);
  std::error_code error;
  if (path.has_parent_path()) {
    std::filesystem::create_directories(path.parent_path(), error);
  }
  const bool is_new = ::mkdir(out.name.c_str(), kReadableByAll) == 0;
  if (!is_new && (errno != EEXIST || !std::filesystem::is_directory(path, error))) {
    return std::unexpected(system_error("cannot create " + out.name, errno));
  }

  struct stat user {};

  const bool is_known = ::stat(fmt::format("/proc/{}", worker).c_str(), &user) == 0;
  if (::geteuid() != 0 || (is_known && user.st_uid == 0)) {
    return out;
  }
  if (!is_new) {
    return failure(
        Errc::usage,
        out.name + " exists. Root records the job of another user only into a new folder");
  }
  out.for_user = is_known && asks_daemon(worker);
  if (out.for_user) {
    MUSTER_RETURN_IF_ERROR(give(out.name, user));
  }
  return out;
}

}  // namespace muster
