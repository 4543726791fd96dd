// SPDX-License-Identifier: Apache-2.0
#include "host/linux_machine.hpp"

#include "base/check.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"
#include "host/cpu_count.hpp"
#include "host/gpu_count.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace muster {
namespace {

// No setting is longer; a mistyped --config=/dev/zero ends here.
constexpr std::size_t kFileBytesMax = 4 << 20;

Result<std::string> read_whole(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!file) {
    return std::unexpected(system_error(path, errno));
  }
  std::string text;
  std::array<char, 4096> block{};
  while (text.size() <= kFileBytesMax) {
    const ssize_t got = ::read(file.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return std::unexpected(system_error(path, errno));
    }
    if (got == 0) {
      return text;
    }
    text.append(block.data(), static_cast<std::size_t>(got));
  }
  return failure(Errc::usage, path + ": too long for a file of settings");
}

// The mask may be longer than the fixed cpu_set_t: machines with more than 1,024 processors.
int affinity_count() {
  for (std::size_t cpus = 1024; cpus <= 1U << 20; cpus *= 4) {
    const std::size_t bytes = CPU_ALLOC_SIZE(cpus);
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(
        CPU_ALLOC(cpus), [](cpu_set_t* memory) { CPU_FREE(memory); });
    if (::sched_getaffinity(0, bytes, set.get()) == 0) {
      return std::max(1, CPU_COUNT_S(bytes, set.get()));
    }
  }
  return 1;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code problem;
  std::filesystem::directory_iterator entry(folder, problem);
  while (!problem && entry != std::filesystem::directory_iterator{}) {
    names.push_back(entry->path().filename().string());
    entry.increment(problem);
  }
  std::ranges::sort(names);
  return names;
}

// "nvidia0" but neither "nvidiactl" nor "nvidia-uvm".
bool is_gpu_node(std::string_view name) {
  return name.starts_with("nvidia") && name.size() > 6 &&
         name.find_first_not_of("0123456789", 6) == std::string_view::npos;
}

// The value of "Name:   value" in one of the driver's files.
std::string field_of(const std::string& text, std::string_view name) {
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with(name)) {
      return std::string(trim(std::string_view(line).substr(name.size())));
    }
  }
  return "";
}

GpuDevices find_gpus(const std::string& root) {
  GpuDevices devices;
  const std::string driver = root + "/proc/driver/nvidia/gpus/";
  for (const std::string& name : names_in(driver)) {
    ++devices.nvidia_proc;
    const std::string uuid =
        field_of(read_whole(driver + name + "/information").value_or(""), "GPU UUID:");
    if (uuid.starts_with("GPU-") && uuid.find('?') == std::string::npos) {
      devices.nvidia_uuids.push_back(uuid);
    }
  }
  devices.nvidia_nodes =
      static_cast<int>(std::ranges::count_if(names_in(root + "/dev"), is_gpu_node));
  const std::string nodes = root + "/sys/class/kfd/kfd/topology/nodes/";
  for (const std::string& name : names_in(nodes)) {
    const auto units =
        field_of(read_whole(nodes + name + "/properties").value_or(""), "simd_count ");
    devices.amd += parse_int(units).value_or(0) > 0 ? 1 : 0;
  }
  return devices;
}

}  // namespace

LinuxMachine::LinuxMachine(std::string root) : root_(std::move(root)) {}

std::string LinuxMachine::hostname() const {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) {
    return "localhost";
  }
  return name.data();
}

Count LinuxMachine::usable_cpus() const {
  const int affinity = affinity_count();
  const TextReader read = [&](const std::string& path) -> std::optional<std::string> {
    auto text = read_whole(root_ + path);
    return text ? std::optional(std::move(*text)) : std::nullopt;
  };
  const auto quota = cgroup_quota(
      read("/proc/self/cgroup").value_or(""), read("/proc/self/mountinfo").value_or(""), read);
  if (quota && *quota < affinity) {
    return {*quota, fmt::format("{} CPUs by the cgroup's quota, {} by affinity", *quota, affinity)};
  }
  return {affinity, fmt::format("{} CPUs by affinity", affinity)};
}

Count LinuxMachine::usable_gpus(const Environ& environ) const {
  return count_gpus(find_gpus(root_), environ);
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
  return ::access(path.c_str(), X_OK) == 0 ? FileKind::executable : FileKind::plain;
}

Result<std::string> LinuxMachine::read_file(const std::string& path) const {
  return read_whole(path);
}

// The kernel keeps what was given to execve: a shell that found us in PATH gave it the whole path.
// /proc/self/exe would follow a link such as /venv/bin/torchrun.
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
  // As listeners do; a port that a closed connection still holds counts as free then.
  const int on = 1;
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0;
}

std::string LinuxMachine::random_hex() const {
  std::array<std::uint64_t, 2> numbers{};
  MUSTER_CHECK(::getrandom(numbers.data(), sizeof numbers, 0) == sizeof numbers);
  return fmt::format("{:016x}{:016x}", numbers[0], numbers[1]);
}

}  // namespace muster
