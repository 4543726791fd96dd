// SPDX-License-Identifier: Apache-2.0
#include "process/tree/live_environment.hpp"

#include "base/text.hpp"
#include "process/values/proc_file.hpp"

#include <climits>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <sys/uio.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr std::size_t kMapsBytesMax = std::size_t{4} * 1024 * 1024;
constexpr std::uint64_t kPageBytes = 4096;

std::string program_of(pid_t pid) {
  std::array<char, PATH_MAX> path{};
  const auto count =
      ::readlink(("/proc/" + std::to_string(pid) + "/exe").c_str(), path.data(), path.size());
  return {path.data(), static_cast<std::size_t>(std::max<ssize_t>(0, count))};
}

bool read_process_memory(pid_t pid, std::uint64_t address, std::span<std::byte> to) {
  const iovec here{.iov_base = to.data(), .iov_len = to.size()};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of another process
  const iovec there{.iov_base = reinterpret_cast<void*>(address), .iov_len = to.size()};
  return ::process_vm_readv(pid, &here, 1, &there, 1, 0) == static_cast<ssize_t>(to.size());
}

bool is_c_library(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name == "libc.so.6" || name.starts_with("libc-2.") || name.starts_with("libc.musl-") ||
         name.starts_with("ld-musl-");
}

// "7f00-7f10 r--p 00000000 08:01 17   /lib/libc.so.6": the address of the file's first page.
std::optional<LoadedFile> first_page(std::string_view line) {
  std::uint64_t start = 0;
  const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), start, 16);
  const auto path = line.find('/');
  const auto permissions = line.find(' ');
  if (error != std::errc{} || path == std::string_view::npos ||
      !line.substr(std::min(line.size(), permissions + 6)).starts_with("00000000 ")) {
    return std::nullopt;
  }
  return LoadedFile{std::string(line.substr(path)), start};
}

// A NUL-terminated string, possibly truncated. No read crosses a page boundary, because the next
// page may be unmapped.
std::optional<std::string> text_at(const ReadMemory& read, std::uint64_t address) {
  std::string text;
  while (text.size() < kVariableBytesMax) {
    const std::uint64_t left = kPageBytes - address % kPageBytes;
    std::array<char, kVariableBytesMax> piece{};
    const auto bytes =
        std::span(piece).first(std::min<std::size_t>(left, kVariableBytesMax - text.size()));
    if (!read(address, std::as_writable_bytes(bytes))) {
      return std::nullopt;
    }
    const auto end = std::ranges::find(bytes, '\0');
    text.append(bytes.begin(), end);
    if (end != bytes.end()) {
      break;
    }
    address += bytes.size();
  }
  return text;
}

std::optional<std::uint64_t> pointer_at(const ReadMemory& read, std::uint64_t address) {
  std::uint64_t value = 0;
  return read(address, std::as_writable_bytes(std::span(&value, 1))) ? std::optional(value)
                                                                     : std::nullopt;
}

}  // namespace

std::string maps_of(pid_t pid) {
  return read_proc_file("/proc/" + std::to_string(pid) + "/maps", kMapsBytesMax);
}

ReadMemory memory_of(pid_t pid) {
  return [pid](std::uint64_t address, std::span<std::byte> to) {
    return read_process_memory(pid, address, to);
  };
}

std::vector<LoadedFile> loaded_files(std::string_view maps) {
  std::vector<LoadedFile> out;
  for (const std::string& line : split(maps, '\n')) {
    if (auto page = first_page(line)) {
      out.push_back(std::move(*page));
    }
  }
  return out;
}

std::vector<std::uint64_t> bases_of_environ(std::string_view maps, std::string_view program) {
  std::vector<std::uint64_t> bases;
  for (const LoadedFile& file : loaded_files(maps)) {
    if (!program.empty() && file.path == program) {
      bases.insert(bases.begin(), file.base);
    } else if (is_c_library(file.path)) {
      bases.push_back(file.base);
    }
  }
  return bases;
}

std::optional<std::map<std::string, std::string>> variables_at(
    const ReadMemory& read, std::uint64_t environ, const std::vector<std::string>& names) {
  const auto array = pointer_at(read, environ);
  if (!array || *array == 0) {
    return std::nullopt;
  }
  std::map<std::string, std::string> found;
  for (std::uint64_t i = 0; i < kVariablesMax; ++i) {
    const auto entry = pointer_at(read, *array + i * sizeof(std::uint64_t));
    if (!entry) {
      return std::nullopt;
    }
    if (*entry == 0) {
      return found;
    }
    const auto text = text_at(read, *entry);
    const auto equals = text ? text->find('=') : std::string::npos;
    if (equals == std::string::npos) {
      continue;
    }
    if (const std::string name = text->substr(0, equals);
        std::ranges::find(names, name) != names.end()) {
      found.emplace(name, text->substr(equals + 1));  // the first definition is used, as in getenv
    }
  }
  return std::nullopt;
}

std::optional<std::map<std::string, std::string>> live_variables(
    pid_t pid, const std::vector<std::string>& names) {
  const ReadMemory read = memory_of(pid);
  for (const std::uint64_t base : bases_of_environ(maps_of(pid), program_of(pid))) {
    for (const std::string_view symbol : {"environ", "__environ"}) {
      const auto address = address_of_symbol(read, base, symbol);
      auto found = address ? variables_at(read, *address, names) : std::nullopt;
      if (found) {
        return found;
      }
    }
  }
  return std::nullopt;
}

}  // namespace muster
