// SPDX-License-Identifier: Apache-2.0
#include "machine/text_file.hpp"

#include "base/fd.hpp"

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr std::size_t kFileBytesMax = 4 << 20;

}  // namespace

Result<std::string> read_text_file(const std::string& path) {
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
  return failure(Errc::usage, path + ": file is too large for a configuration file");
}

}  // namespace muster
