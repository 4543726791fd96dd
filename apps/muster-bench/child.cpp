// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/child.hpp"

#include "base/fd.hpp"
#include "base/text.hpp"

#include <filesystem>
#include <fstream>
#include <utility>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace muster::bench {
namespace {

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  result.reserve(words.size() + 1);
  for (auto& word : words) {
    result.push_back(word.data());
  }
  result.push_back(nullptr);
  return result;
}

// stdin, stdout and stderr of a child.
class Streams {
 public:
  explicit Streams(const Command& command) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    set(1, command.out);
    set(2, command.err);
  }

  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  ~Streams() { posix_spawn_file_actions_destroy(&actions_); }

  [[nodiscard]] const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  void set(int stream, int from) {
    if (from < 0) {
      posix_spawn_file_actions_addopen(&actions_, stream, "/dev/null", O_WRONLY, 0);
    } else {
      posix_spawn_file_actions_adddup2(&actions_, from, stream);
    }
  }

  posix_spawn_file_actions_t actions_;
};

void kill_family(pid_t pid) {
  for (const pid_t each : family_of(pid)) {
    kill(each, SIGKILL);
  }
}

cpu_set_t one_or_all(int cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (cpu < 0 || i == cpu) {
      CPU_SET(static_cast<std::size_t>(i), &cpus);
    }
  }
  return cpus;
}

}  // namespace

Result<Child> Child::start(const Command& command) {
  auto words = command.words;
  auto block = command.environ.to_block();
  const Streams streams(command);
  cpu_set_t before;
  sched_getaffinity(0, sizeof before, &before);
  if (command.cpu >= 0) {
    pin_to(command.cpu);  // a child inherits it; there is no other way for posix_spawn
  }
  pid_t pid = -1;
  const int failed = posix_spawn(&pid,
                                 words.front().c_str(),
                                 streams.get(),
                                 nullptr,
                                 pointers(words).data(),
                                 pointers(block).data());
  if (command.cpu >= 0) {
    sched_setaffinity(0, sizeof before, &before);
  }
  if (failed != 0) {
    return std::unexpected(system_error("starting " + words.front(), failed));
  }
  return Child(pid);
}

Child::Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}

Child& Child::operator=(Child&& other) noexcept {
  kill_now();
  pid_ = std::exchange(other.pid_, -1);
  return *this;
}

int Child::wait(int patience_ms) {
  const UniqueFd watched(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  pollfd ended{watched.get(), POLLIN, 0};
  if (watched && poll(&ended, 1, patience_ms) == 0) {
    kill_family(pid_);
  }
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void Child::kill_now() {
  if (pid_ > 0) {
    kill_family(pid_);
    static_cast<void>(wait());
  }
}

void Child::stop() {
  if (pid_ > 0) {
    kill(pid_, SIGTERM);
    static_cast<void>(wait());
  }
}

std::optional<std::string> find_program(const std::string& name, const Environ& environ) {
  if (name.empty()) {
    return std::nullopt;
  }
  if (name.find('/') != std::string::npos) {
    return access(name.c_str(), X_OK) == 0 ? std::optional(name) : std::nullopt;
  }
  for (const auto& folder : split(environ.get("PATH").value_or("/usr/bin:/bin"), ':')) {
    std::string path(folder);
    path += '/';
    path += name;
    if (access(path.c_str(), X_OK) == 0) {
      return path;
    }
  }
  return std::nullopt;
}

void pin_to(int cpu) {
  const auto cpus = one_or_all(cpu);
  sched_setaffinity(0, sizeof cpus, &cpus);
}

std::vector<pid_t> family_of(pid_t pid) {
  std::vector<pid_t> family{pid};
  for (std::size_t i = 0; i < family.size(); ++i) {
    const auto own = "/proc/" + std::to_string(family[i]) + "/task/";
    std::error_code ignored;
    for (const auto& task : std::filesystem::directory_iterator(own, ignored)) {
      std::ifstream children(task.path() / "children");
      for (pid_t child = 0; children >> child;) {
        family.push_back(child);
      }
    }
  }
  return family;
}

std::size_t memory_kib(pid_t pid, const std::string& field) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) {
      const auto words = trim(std::string_view(line).substr(field.size() + 1));
      return static_cast<std::size_t>(parse_int(words.substr(0, words.find(' '))).value_or(0));
    }
  }
  return 0;
}

}  // namespace muster::bench
