// SPDX-License-Identifier: Apache-2.0
#include "check/probe/system_probe.hpp"

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"
#include "machine/text_file.hpp"
#include "process/start/inherited_state.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace muster::check {
namespace {

constexpr const char* kShm = "/dev/shm";
constexpr const char* kCgroups = "/sys/fs/cgroup";
constexpr std::size_t kTrialBytes = 65536;

double value_of(rlim_t limit) {
  return limit == RLIM_INFINITY ? kUnlimited : static_cast<double>(limit);
}

double soft_limit(__rlimit_resource resource) {
  rlimit limit{};
  return ::getrlimit(resource, &limit) == 0 ? value_of(limit.rlim_cur) : kUnlimited;
}

// The lowest pids.max from our cgroup to the root. Only cgroup v2 is read.
double cgroup_processes() {
  const auto text = read_text_file("/proc/self/cgroup");
  const std::string_view line = text ? trim(*text) : std::string_view();
  double lowest = kUnlimited;
  std::string path(line.starts_with("0::/") ? line.substr(3) : "");
  while (path.size() > 1) {
    const auto most = read_text_file(kCgroups + path + "/pids.max");
    if (const auto number = most ? parse_int(trim(*most)) : std::nullopt) {
      lowest = std::min(lowest, static_cast<double>(*number));
    }
    path.resize(path.rfind('/'));
  }
  return lowest;
}

std::string existing_ancestor(std::string path) {
  while (path.size() > 1 && ::access(path.c_str(), F_OK) != 0) {
    const std::size_t slash = path.rfind('/');
    path.resize(slash == std::string::npos ? 0 : std::max<std::size_t>(slash, 1));
    path = path.empty() ? "." : path;
  }
  return path;
}

// 0, or the errno of the first call that failed.
int write_trial(const std::string& folder) {
  std::string name = folder + "/.muster-check-XXXXXX";
  UniqueFd file(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (!file) {
    file = UniqueFd(::mkostemp(name.data(), O_CLOEXEC));
    if (!file) {
      return errno;
    }
    ::unlink(name.c_str());
  }
  static constexpr std::array<char, kTrialBytes> kZeros{};
  errno = 0;
  const ssize_t written = ::write(file.get(), kZeros.data(), kZeros.size());
  const int why = written < 0 ? errno : ENOSPC;
  return written == static_cast<ssize_t>(kZeros.size()) ? 0 : why;
}

}  // namespace

void read_limits(NodeFigures& out) {
  const auto& raised = inherited_state().descriptors;
  out.values[Metric::open_files] = raised ? value_of(raised->rlim_cur) : soft_limit(RLIMIT_NOFILE);
  out.values[Metric::processes] = std::min(soft_limit(RLIMIT_NPROC), cgroup_processes());
  out.values[Metric::locked_memory] = soft_limit(RLIMIT_MEMLOCK);
}

void read_memory(NodeFigures& out) {
  constexpr std::string_view kName = "MemAvailable:";
  const auto text = read_text_file("/proc/meminfo");
  const std::size_t at = text ? text->find(kName) : std::string::npos;
  if (at == std::string::npos) {
    out.unmeasured.emplace_back("available memory: /proc/meminfo does not contain it");
    return;
  }
  out.values[Metric::memory_free] = std::strtod(text->c_str() + at + kName.size(), nullptr) * kKi;
}

void read_shm(NodeFigures& out) {
  struct statvfs facts {};

  if (::statvfs(kShm, &facts) != 0) {
    out.problems.push_back(fmt::format("cannot use {}: {}", kShm, errno_text(errno)));
    return;
  }
  const auto block = static_cast<double>(facts.f_frsize);
  out.values[Metric::shm_size] = static_cast<double>(facts.f_blocks) * block;
  out.values[Metric::shm_free] = static_cast<double>(facts.f_bavail) * block;
  if (const int why = write_trial(kShm); why != 0 && why != ENOSPC) {
    out.problems.push_back(fmt::format("cannot write to {}: {}", kShm, errno_text(why)));
  }
}

void read_log_folder(const std::string& folder, NodeFigures& out) {
  const std::string place = existing_ancestor(folder);

  struct statvfs facts {};

  if (::statvfs(place.c_str(), &facts) != 0) {
    out.problems.push_back(
        fmt::format("cannot use the log folder '{}': {}", folder, errno_text(errno)));
    return;
  }
  out.values[Metric::disk_free] =
      static_cast<double>(facts.f_bavail) * static_cast<double>(facts.f_frsize);
  if (facts.f_files > 0) {  // some file systems have no fixed number
    out.values[Metric::disk_files_free] = static_cast<double>(facts.f_favail);
  }
  if (const int why = write_trial(place); why != 0 && why != ENOSPC) {
    out.problems.push_back(
        fmt::format("cannot write to the log folder '{}': {}", folder, errno_text(why)));
  }
}

}  // namespace muster::check
