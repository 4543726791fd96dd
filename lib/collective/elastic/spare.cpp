// SPDX-License-Identifier: Apache-2.0
#include "collective/elastic/spare.hpp"

#include "base/environ.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"
#include "worker/worker.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

namespace muster::collective::elastic {
namespace {

constexpr std::string_view kReady = "ready";
constexpr std::size_t kFiles = 4;   // the description of the worker, and its three streams
constexpr std::size_t kHeader = 3;  // fields before the variables

using Files = std::array<int, kFiles>;

Error spare_failure(std::string text) {
  const int code = errno;
  return {
      .code = Errc::system, .native = code, .text = std::move(text) + ": " + std::strerror(code)};
}

// Empty if the launcher has closed the connection.
std::optional<Files> receive_files(int control) {
  std::array<char, 64> text{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(Files))> room{};
  iovec part{text.data(), text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room.data();
  message.msg_controllen = room.size();
  ssize_t count = -1;
  do {
    count = ::recvmsg(control, &message, MSG_CMSG_CLOEXEC);
  } while (count < 0 && errno == EINTR);
  const cmsghdr* const rights = count > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (rights == nullptr || rights->cmsg_type != SCM_RIGHTS ||
      rights->cmsg_len != CMSG_LEN(sizeof(Files))) {
    return std::nullopt;
  }
  Files files{};
  std::memcpy(files.data(), CMSG_DATA(rights), sizeof(files));
  return files;
}

std::string read_all(int fd) {
  std::string out;
  std::array<char, 4096> chunk{};
  for (ssize_t count = 1; count > 0;) {
    count = ::read(fd, chunk.data(), chunk.size());
    out.append(chunk.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  }
  return out;
}

// Threads stay on other CPUs if the kernel refuses these.
void bind_threads(const CpuSet& cpus) {
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", error)) {
    const std::string name = thread.path().filename();
    pid_t id = 0;
    std::from_chars(name.data(), name.data() + name.size(), id);
    const auto& words = cpus.words();
    static_cast<void>(::sched_setaffinity(
        id, words.size() * sizeof(words[0]), reinterpret_cast<const cpu_set_t*>(words.data())));
  }
}

void apply(const SpareStart& start) {
  for (const auto& [name, value] : start.variables) {
    if (value) {
      ::setenv(name.c_str(), value->c_str(), 1);
    } else {
      ::unsetenv(name.c_str());
    }
  }
  if (!start.cpus.empty()) {
    bind_threads(start.cpus);
  }
}

}  // namespace

SpareStart parse_spare_start(std::string_view text) {
  const auto fields = split(text, '\0');
  SpareStart out;
  if (fields.size() <= kHeader) {
    return out;
  }
  out.cpus = CpuSet::parse(fields[1]).value_or(CpuSet());
  for (std::size_t i = kHeader; i + 1 < fields.size(); ++i) {
    const auto equals = fields[i].find('=');
    out.variables.emplace_back(
        fields[i].substr(0, equals),
        equals == std::string::npos ? std::nullopt : std::optional(fields[i].substr(equals + 1)));
  }
  return out;
}

Result<void> become_worker() {
  if (!Environ::from_block(::environ).get("MUSTER_SPARE")) {
    return {};
  }
  if (::send(STDIN_FILENO, kReady.data(), kReady.size(), MSG_NOSIGNAL) < 0) {
    return std::unexpected(spare_failure("cannot report to muster as a spare worker"));
  }
  const auto files = receive_files(STDIN_FILENO);
  if (!files) {
    ::_exit(0);
  }
  const UniqueFd description(files->front());
  static_cast<void>(std::fflush(nullptr));
  for (std::size_t stream = 0; stream + 1 < kFiles; ++stream) {
    const UniqueFd given((*files)[stream + 1]);
    if (::dup2(given.get(), static_cast<int>(stream)) < 0) {
      return std::unexpected(spare_failure("cannot use the streams of the worker"));
    }
  }
  apply(parse_spare_start(read_all(description.get())));
  worker::start_again();
  return {};
}

}  // namespace muster::collective::elastic
