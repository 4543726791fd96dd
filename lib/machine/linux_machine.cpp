// SPDX-License-Identifier: Apache-2.0
#include "machine/linux_machine.hpp"

#include "base/check.hpp"
#include "base/fd.hpp"
#include "base/mount.hpp"
#include "base/plural.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "machine/cpu_count.hpp"
#include "machine/gpu_devices.hpp"
#include "machine/smi_list.hpp"
#include "machine/text_file.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <linux/mempolicy.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace muster {
namespace {

// On hosts with more than 1,024 CPUs, the mask may be longer than the fixed-size cpu_set_t.
CpuSet affinity_mask() {
  std::vector<CpuSet::Word> words;
  for (int cpus = 1024; cpus <= CpuSet::kNumbersMax; cpus *= 4) {
    words.assign(static_cast<std::size_t>(cpus) / (8 * sizeof(CpuSet::Word)), 0);
    auto* const set = reinterpret_cast<cpu_set_t*>(words.data());
    if (::sched_getaffinity(0, words.size() * sizeof(CpuSet::Word), set) == 0) {
      return CpuSet::from_words(words);
    }
  }
  return {};
}

TextReader below(const std::string& root) {
  return [root](const std::string& path) -> std::optional<std::string> {
    auto text = read_text_file(root + path);
    return text ? std::optional(std::move(*text)) : std::nullopt;
  };
}

// The NUMA nodes that the cpuset allows. Empty if we must not change the memory policy: either a
// container forbids the system calls (Docker without CAP_SYS_NICE), or the process inherited a
// policy that the user set intentionally (numactl).
CpuSet settable_memory(const TextReader& read) {
  int mode = MPOL_DEFAULT;
  if (::syscall(SYS_get_mempolicy, &mode, nullptr, 0UL, nullptr, 0UL) != 0 ||
      mode != MPOL_DEFAULT) {
    return {};
  }
  constexpr std::string_view kField = "Mems_allowed_list:";
  const std::string status = read("/proc/self/status").value_or("");
  const auto begin = status.find(kField);
  if (begin == std::string::npos) {
    return {};
  }
  const auto end = std::min(status.find('\n', begin), status.size());
  const auto value = std::string_view(status).substr(begin, end - begin).substr(kField.size());
  return CpuSet::parse(value).value_or(CpuSet{});
}

}  // namespace

LinuxMachine::LinuxMachine(std::string root, AskSmi ask_smi)
    : root_(std::move(root)),
      ask_smi_(ask_smi ? std::move(ask_smi) : [] { return std::string(); }) {}

std::string LinuxMachine::hostname() const {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) {
    return "localhost";
  }
  return name.data();
}

Count LinuxMachine::usable_cpus() const {
  const int affinity = std::max(1, affinity_mask().count());
  const TextReader read = below(root_);
  const auto quota = cgroup_quota(
      read("/proc/self/cgroup").value_or(""), read("/proc/self/mountinfo").value_or(""), read);
  if (quota && *quota < affinity) {
    return {*quota,
            counted(*quota, "CPU") + fmt::format(" by the cgroup quota, {} by affinity", affinity)};
  }
  return {affinity, counted(affinity, "CPU") + " by affinity"};
}

bool LinuxMachine::has_own_cpus(std::optional<int> shared) const {
  const auto text = read_text_file(root_ + "/sys/devices/system/cpu/online");
  const auto online = text ? CpuSet::parse(trim(*text)) : std::nullopt;
  const int own = affinity_mask().count();
  return (!online || own < online->count()) && (!shared || own < *shared);
}

Count LinuxMachine::usable_gpus(const Environ& environ) const {
  GpuDevices devices = find_gpus(root_);
  if (devices.is_hidden) {
    for (SmiGpu& gpu : parse_smi_list(ask_smi_())) {
      devices.nvidia.push_back({"", std::move(gpu.uuid), std::move(gpu.model)});
    }
  }
  const VisibleGpus seen = visible_gpus(devices, environ);
  return {static_cast<int>(seen.gpus.size()), seen.reason};
}

MigSlices LinuxMachine::mig_slices() const {
  if (!has_slices(root_)) {
    return {};
  }
  MigSlices out{find_gpus(root_).mig_slices, {}};
  if (out.count > 0) {
    for (SmiGpu& gpu : parse_smi_list(ask_smi_())) {
      std::ranges::move(gpu.slices, std::back_inserter(out.names));
    }
  }
  return out;
}

bool LinuxMachine::has_amd_gpus() const {
  return has_only_amd_gpus(root_);
}

Result<NumaPlan> LinuxMachine::numa_plan(NumaPolicy policy,
                                         int ranks,
                                         const Environ& environ) const {
  const TextReader read = below(root_);
  NumaRequest request{policy, ranks, affinity_mask(), settable_memory(read), {}};
  for (const Gpu& gpu : visible_gpus(find_gpus(root_), environ).gpus) {
    request.gpus.push_back(gpu.address);
  }
  return bind_ranks(request, read);
}

FileKind LinuxMachine::file_kind(const std::string& path) const {
  struct ::stat facts {};

  if (::stat(path.c_str(), &facts) != 0) {
    return FileKind::missing;
  }
  if (S_ISDIR(facts.st_mode)) {
    return FileKind::folder;
  }
  if (!S_ISREG(facts.st_mode)) {
    return FileKind::other;
  }
  if (::access(path.c_str(), X_OK) == 0) {
    return FileKind::executable;
  }
  return is_noexec_program(path) ? FileKind::noexec : FileKind::plain;
}

Result<std::string> LinuxMachine::read_file(const std::string& path) const {
  return read_text_file(path);
}

std::string LinuxMachine::working_folder() const {
  std::error_code problem;
  const auto folder = std::filesystem::current_path(problem);
  return problem ? "" : folder.string();
}

// The path that was passed to execve. A shell that finds a program in PATH passes its full path.
// /proc/self/exe would resolve links such as /venv/bin/torchrun.
std::string LinuxMachine::own_path() const {
  const auto* path = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  return path == nullptr ? "" : path;
}

Result<std::vector<OwnAddress>> LinuxMachine::own_addresses() const {
  return muster::own_addresses();
}

bool LinuxMachine::is_port_free(std::uint16_t port) const {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(port);
  // Listeners set this option too, so a port in TIME_WAIT counts as free.
  const int on = 1;
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0;
}

bool LinuxMachine::stdin_is_terminal() const {
  return ::isatty(STDIN_FILENO) == 1;
}

std::string LinuxMachine::random_hex() const {
  constexpr std::size_t kBytes = 16;
  return muster::random_hex(kBytes);
}

}  // namespace muster
