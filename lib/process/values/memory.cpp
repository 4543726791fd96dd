// SPDX-License-Identifier: Apache-2.0
#include "process/values/memory.hpp"

#include "base/fd.hpp"
#include "base/text.hpp"

#include <fmt/core.h>

#include <array>

#include <fcntl.h>
#include <unistd.h>

namespace muster {
namespace {

// For "no limit", version 1 reports a huge number and version 2 reports "max".
constexpr std::uint64_t kUnlimitedBytes = std::uint64_t{1} << 60;

std::optional<std::string> read_small(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> buffer{};
  const auto count = fd ? ::read(fd.get(), buffer.data(), buffer.size()) : -1;
  if (count < 0) {
    return std::nullopt;
  }
  return std::string(buffer.data(), static_cast<std::size_t>(count));
}

std::optional<std::uint64_t> read_number(const std::string& path) {
  const auto text = read_small(path);
  const auto number = text ? parse_int(*text) : std::nullopt;
  if (!number || *number < 0 || static_cast<std::uint64_t>(*number) >= kUnlimitedBytes) {
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(*number);
}

bool is_memory_group(const std::string& folder) {
  return ::access((folder + "/memory.events").c_str(), R_OK) == 0 ||
         ::access((folder + "/memory.oom_control").c_str(), R_OK) == 0;
}

// True if a list such as "cpu,memory" contains "memory".
bool names_memory(std::string_view controllers) {
  for (const auto& name : split(controllers, ',')) {
    if (name == "memory") {
      return true;
    }
  }
  return false;
}

std::string describe_bytes(std::uint64_t bytes) {
  constexpr double kMiB = 1024.0 * 1024.0;
  const double mib = static_cast<double>(bytes) / kMiB;
  return mib < 10240 ? fmt::format("{:.0f} MiB", mib) : fmt::format("{:.1f} GiB", mib / 1024);
}

}  // namespace

std::string MemoryFacts::describe() const {
  std::string text;
  if (limit_bytes) {
    text = "limit " + describe_bytes(*limit_bytes);
  }
  if (peak_bytes) {
    text += (text.empty() ? "peak " : ", peak ") + describe_bytes(*peak_bytes);
  }
  return text;
}

std::string memory_group_folder(std::string_view proc_self_cgroup, const std::string& mount) {
  for (const auto& line : split(proc_self_cgroup, '\n')) {
    const auto fields = split(line, ':');
    if (fields.size() < 3) {
      continue;
    }
    const bool version2 = fields[0] == "0" && fields[1].empty();
    if (!version2 && !names_memory(fields[1])) {
      continue;
    }
    const std::string root = version2 ? mount : mount + "/memory";
    const auto path = line.substr(fields[0].size() + fields[1].size() + 2);
    for (const auto& folder : {root + path, root}) {
      if (is_memory_group(folder)) {
        return folder;
      }
    }
  }
  return {};
}

std::string own_memory_group() {
  const auto text = read_small("/proc/self/cgroup");
  return text ? memory_group_folder(*text, "/sys/fs/cgroup") : std::string();
}

std::optional<std::uint64_t> value_of(std::string_view text, std::string_view key) {
  for (const auto& line : split(text, '\n')) {
    const auto blank = line.find(' ');
    if (blank != std::string::npos && line.substr(0, blank) == key) {
      const auto number = parse_int(std::string_view(line).substr(blank));
      return number ? std::optional(static_cast<std::uint64_t>(*number)) : std::nullopt;
    }
  }
  return std::nullopt;
}

std::optional<std::uint64_t> read_memory_kills(const std::string& folder) {
  for (const char* const file : {"/memory.events", "/memory.oom_control"}) {
    if (const auto text = folder.empty() ? std::nullopt : read_small(folder + file)) {
      return value_of(*text, "oom_kill");
    }
  }
  return std::nullopt;
}

MemoryFacts read_memory_facts(const std::string& folder) {
  MemoryFacts facts;
  facts.kills = read_memory_kills(folder);
  if (!facts.kills) {
    return facts;
  }
  const bool version2 = ::access((folder + "/memory.events").c_str(), F_OK) == 0;
  facts.limit_bytes = read_number(folder + (version2 ? "/memory.max" : "/memory.limit_in_bytes"));
  facts.peak_bytes =
      read_number(folder + (version2 ? "/memory.peak" : "/memory.max_usage_in_bytes"));
  return facts;
}

}  // namespace muster
