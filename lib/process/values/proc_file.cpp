// SPDX-License-Identifier: Apache-2.0
#include "process/values/proc_file.hpp"

#include "base/fd.hpp"

#include <algorithm>
#include <array>

#include <fcntl.h>
#include <unistd.h>

namespace muster {

std::string read_proc_file(const std::string& path, std::size_t bytes_max) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 4096> piece{};
  while (fd && text.size() < bytes_max) {
    const auto count =
        ::read(fd.get(), piece.data(), std::min(piece.size(), bytes_max - text.size()));
    if (count <= 0) {
      break;
    }
    text.append(piece.data(), static_cast<std::size_t>(count));
  }
  return text;
}

}  // namespace muster
