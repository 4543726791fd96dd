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

std::optional<double> number_in(const std::string& file) {
  const auto text = read_text_file(file);
  const auto number = text ? parse_int(trim(*text)) : std::nullopt;
  return number ? std::optional(static_cast<double>(*number)) : std::nullopt;
}

// The lowest value from this cgroup to the root that is mounted there.
template <class Read>
double lowest_above(const std::string& mount, std::string cgroup, const Read& read) {
  double lowest = kUnlimited;
  while (true) {
    lowest = std::min(lowest, read(mount + cgroup).value_or(kUnlimited));
    if (cgroup.empty()) {
      return lowest;
    }
    cgroup.resize(cgroup.rfind('/'));
  }
}

// The lowest value of our cgroups. /proc/self/cgroup has the lines "0::/a" (version 2) and
// "8:pids:/a" (version 1).
template <class Read>
double lowest_in_cgroups(const std::string& controller, const Read& read) {
  double lowest = kUnlimited;
  for (const std::string& line : split(read_text_file("/proc/self/cgroup").value_or(""), '\n')) {
    const std::size_t colon = line.find(':');
    const std::size_t slash = line.find('/');
    if (colon == std::string::npos || slash == std::string::npos || slash < colon) {
      continue;
    }
    const std::string kind = line.substr(colon, slash - colon);
    const std::string cgroup = line.substr(slash) == "/" ? "" : line.substr(slash);
    if (kind == "::") {
      lowest = std::min(lowest, lowest_above(kCgroups, cgroup, read));
    } else if (kind == ":" + controller + ":") {
      lowest = std::min(lowest, lowest_above(kCgroups + ("/" + controller), cgroup, read));
    }
  }
  return lowest;
}

std::optional<double> processes_allowed(const std::string& cgroup) {
  return number_in(cgroup + "/pids.max");
}

// Zero without such a line.
double line_in(const std::string& text, const std::string& name) {
  const std::size_t at = ("\n" + text).find("\n" + name);
  return at == std::string::npos ? 0 : std::strtod(text.c_str() + at + name.size(), nullptr);
}

// What the cgroup's limit leaves. Pages of files that were not used recently do not count, because
// the kernel can drop them.
std::optional<double> memory_allowed(const std::string& cgroup) {
  const auto most = number_in(cgroup + "/memory.max");
  const bool is_v2 = most.has_value();
  const auto limit = is_v2 ? most : number_in(cgroup + "/memory.limit_in_bytes");
  const auto used = number_in(cgroup + (is_v2 ? "/memory.current" : "/memory.usage_in_bytes"));
  if (!limit || !used) {
    return std::nullopt;
  }
  const std::string stat = read_text_file(cgroup + "/memory.stat").value_or("");
  const double cache = line_in(stat, is_v2 ? "inactive_file " : "total_inactive_file ");
  return std::max(0.0, *limit - *used + cache);
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
  out.values[Metric::processes] =
      std::min(soft_limit(RLIMIT_NPROC), lowest_in_cgroups("pids", processes_allowed));
  out.values[Metric::locked_memory] = soft_limit(RLIMIT_MEMLOCK);
}

void read_memory(NodeFigures& out) {
  const std::string text = read_text_file("/proc/meminfo").value_or("");
  const double available = line_in(text, "MemAvailable:") * kKi;
  if (available <= 0) {
    out.unmeasured.emplace_back("available memory: /proc/meminfo does not contain it");
    return;
  }
  out.values[Metric::memory_free] =
      std::min(available, lowest_in_cgroups("memory", memory_allowed));
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
