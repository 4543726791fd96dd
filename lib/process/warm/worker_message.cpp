// SPDX-License-Identifier: Apache-2.0
#include "process/warm/worker_message.hpp"

#include "base/check.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr std::size_t kFilesMax = 5;  // the zygote's; same as in zygote.py

std::string name_of(const std::string& variable) {
  return variable.substr(0, variable.find('='));
}

}  // namespace

std::string encode_worker(const ProcessSpec& spec) {
  std::string text = std::to_string(spec.argv.size()) + '\0';
  text.append(spec.cpus.describe()).push_back('\0');
  text.append(spec.memory.describe()).push_back('\0');
  for (const auto* list : {&spec.argv, &spec.environment}) {
    for (const std::string& word : *list) {
      text.append(word).push_back('\0');
    }
  }
  return text;
}

std::string encode_change(const ProcessSpec& before, const ProcessSpec& after) {
  const std::set<std::string> known(before.environment.begin(), before.environment.end());
  std::set<std::string> names;
  ProcessSpec change;
  change.cpus = after.cpus;
  change.memory = after.memory;
  for (const std::string& variable : after.environment) {
    names.insert(name_of(variable));
    if (!known.contains(variable)) {
      change.environment.push_back(variable);
    }
  }
  for (const std::string& variable : before.environment) {
    if (std::string name = name_of(variable); !names.contains(name)) {
      change.environment.push_back(std::move(name));
    }
  }
  return encode_worker(change);
}

Result<UniqueFd> text_file(const std::string& text) {
  UniqueFd file(::memfd_create("worker", MFD_CLOEXEC));
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::lseek(file.get(), 0, SEEK_SET) != 0) {
    return std::unexpected(system_error("cannot store a worker's environment", errno));
  }
  return file;
}

std::vector<int> files_of(const UniqueFd& text, const ChildStreams& streams) {
  const auto or_ours = [](int fd, int ours) { return fd >= 0 ? fd : ours; };
  return {text.get(),
          or_ours(streams.in, STDIN_FILENO),
          or_ours(streams.out, STDOUT_FILENO),
          or_ours(streams.err, STDERR_FILENO)};
}

bool send_files(int socket, std::string_view text, std::span<const int> files) {
  MUSTER_CHECK(files.size() <= kFilesMax);
  iovec part{const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kFilesMax * sizeof(int))> room{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room.data();
  message.msg_controllen = CMSG_SPACE(files.size_bytes());
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(files.size_bytes());
  std::memcpy(CMSG_DATA(rights), files.data(), files.size_bytes());
  return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

}  // namespace muster
