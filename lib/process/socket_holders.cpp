// SPDX-License-Identifier: Apache-2.0
#include "process/socket_holders.hpp"

#include "process/descendants.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include <dirent.h>
#include <unistd.h>

namespace muster {
namespace {

bool has_open(pid_t pid, std::string_view wanted) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd/";
  DIR* const dir = ::opendir(folder.c_str());
  if (dir == nullptr) {
    return false;
  }
  bool found = false;
  std::array<char, 64> target{};
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the folder is read by this call alone
  for (const dirent* entry = ::readdir(dir); entry != nullptr && !found; entry = ::readdir(dir)) {
    const auto size = ::readlink((folder + entry->d_name).c_str(), target.data(), target.size());
    found = size > 0 && std::string_view(target.data(), static_cast<std::size_t>(size)) == wanted;
  }
  ::closedir(dir);
  return found;
}

}  // namespace

bool has_descendant_socket(std::uint64_t inode) {
  const std::string wanted = "socket:[" + std::to_string(inode) + "]";
  const auto below = descendants();
  return inode != 0 && std::ranges::any_of(below, [&wanted](const ProcessRow& row) {
           return has_open(row.pid, wanted);
         });
}

}  // namespace muster
