// SPDX-License-Identifier: Apache-2.0
#include "process/start/exec_search.hpp"

#include "base/fd.hpp"
#include "base/mount.hpp"
#include "base/text.hpp"
#include "process/start/file_format.hpp"

#include <fmt/core.h>

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr std::size_t kHeadBytes = 256;  // the kernel reads this much of a "#!" line
static_assert(kHeadBytes >= kFileHeadBytes);

constexpr std::string_view kDefaultPath = "/bin:/usr/bin";  // glibc's default if PATH is not set

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

bool is_folder(const std::string& path) {
  struct stat facts {};

  return ::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

constexpr std::string_view kNoexec = "on a file system mounted noexec";

std::string head_of(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, kHeadBytes> head{};
  const auto count = fd ? ::read(fd.get(), head.data(), head.size()) : -1;
  return count > 0 ? std::string(head.data(), static_cast<std::size_t>(count)) : std::string();
}

std::string own_machine() {
  utsname names{};
  return ::uname(&names) == 0 ? names.machine : "";
}

// The interpreter in the file's "#!" line; empty if there is no such line.
std::string interpreter_of(const std::string& path) {
  const std::string head = head_of(path);
  if (!head.starts_with("#!")) {
    return {};
  }
  const auto text = std::string_view(head).substr(2, head.find('\n') - 2);
  const auto from = text.find_first_not_of(" \t");
  if (from == std::string_view::npos) {
    return {};
  }
  return std::string(text.substr(from, text.find_first_of(" \t", from) - from));
}

Error missing(const std::string& name, const std::string& path) {
  if (name.find('/') == std::string::npos) {
    const auto hint = exists("./" + name) ? fmt::format("; did you mean ./{}?", name) : "";
    return {Errc::not_found, fmt::format("cannot start '{}': not found in PATH{}", name, hint)};
  }
  if (!exists(path)) {
    return {Errc::not_found, fmt::format("cannot start '{}': no such file", name)};
  }
  auto interpreter = interpreter_of(path);
  if (interpreter.ends_with('\r')) {
    interpreter.pop_back();
    return {Errc::not_found,
            fmt::format("cannot start '{}': its first line names '{}' followed by a "
                        "carriage return. Convert the file to Unix line endings",
                        name,
                        interpreter)};
  }
  if (!interpreter.empty()) {
    return {
        Errc::not_found,
        fmt::format("cannot start '{}': its interpreter '{}' does not exist", name, interpreter)};
  }
  return {Errc::not_found,
          fmt::format("cannot start '{}': the file exists, but its dynamic loader does not. "
                      "It may be built for another system",
                      name)};
}

Error denied(const std::string& name, const std::string& path) {
  std::string why = "permission denied";
  if (is_folder(path)) {
    why = "it is a directory";
  } else if (is_noexec_program(path)) {
    why = fmt::format("it is {}; copy it to a different file system", kNoexec);
  } else if (exists(path) && ::access(path.c_str(), X_OK) != 0) {
    why = fmt::format("it is not executable. Run chmod +x {}", shell_quoted(path));
  } else if (const auto interpreter = interpreter_of(path); !interpreter.empty()) {
    why = is_noexec_program(interpreter)
              ? fmt::format("its interpreter '{}' is {}", interpreter, kNoexec)
              : fmt::format("permission denied for the file or its interpreter '{}'", interpreter);
  }
  return {Errc::not_possible, fmt::format("cannot start '{}': {}", name, why)};
}

}  // namespace

std::vector<std::string> program_paths(const std::string& name,
                                       const std::vector<std::string>& environment) {
  if (name.find('/') != std::string::npos || name.empty()) {
    return {name};
  }
  std::string_view path = kDefaultPath;
  for (const auto& word : environment) {
    if (word.starts_with("PATH=")) {
      path = std::string_view(word).substr(5);
      break;
    }
  }
  std::vector<std::string> paths;
  for (auto& folder : split(path, ':')) {
    // An empty PATH entry means the current directory.
    if (!folder.empty()) {
      folder += '/';
    }
    paths.push_back(folder.append(name));
  }
  return paths;
}

Error exec_error(const std::string& name, const std::string& path, int errno_value) {
  switch (errno_value) {
    case ENOENT:
    case ENOTDIR:
      return missing(name, path);
    case EACCES:
    case EPERM:
      return denied(name, path);
    case ENOEXEC:
      return {Errc::not_possible,
              fmt::format("cannot start '{}': exec format error: {}",
                          name,
                          why_not_executed(head_of(path), own_machine()))};
    case E2BIG:
      return {Errc::not_possible,
              fmt::format("cannot start '{}': arguments and environment are too long", name)};
    case ETXTBSY:
      return {Errc::not_possible,
              fmt::format("cannot start '{}': the file is open for writing", name)};
    default:
      return {Errc::not_possible,
              fmt::format("cannot start '{}': {}", name, errno_text(errno_value))};
  }
}

}  // namespace muster
