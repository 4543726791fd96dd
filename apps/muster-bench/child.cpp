// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/child.hpp"

#include "base/fd.hpp"

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

constexpr int kKillTimeoutMs = 10'000;

std::vector<char*> pointers(std::vector<std::string>& argv) {
  std::vector<char*> result;
  result.reserve(argv.size() + 1);
  for (auto& each : argv) {
    result.push_back(each.data());
  }
  result.push_back(nullptr);
  return result;
}

// Redirects stdin, stdout and stderr of a child.
class Streams {
 public:
  explicit Streams(int out) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    if (out < 0) {
      posix_spawn_file_actions_addopen(&actions_, 1, "/dev/null", O_WRONLY, 0);
    } else {
      posix_spawn_file_actions_adddup2(&actions_, out, 1);
    }
    posix_spawn_file_actions_addopen(&actions_, 2, "/dev/null", O_WRONLY, 0);
  }

  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  ~Streams() { posix_spawn_file_actions_destroy(&actions_); }

  [[nodiscard]] const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

// Kills the process and all its descendants.
void kill_family(pid_t pid) {
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
  for (const pid_t each : family) {
    kill(each, SIGKILL);
  }
}

}  // namespace

Result<Child> Child::start(std::vector<std::string> argv, int out) {
  const Streams streams(out);
  pid_t pid = -1;
  const int failed = posix_spawnp(
      &pid, argv.front().c_str(), streams.get(), nullptr, pointers(argv).data(), environ);
  if (failed != 0) {
    return std::unexpected(system_error("cannot start " + argv.front(), failed));
  }
  return Child(pid);
}

Child::Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}

Child::~Child() {
  if (pid_ > 0) {
    kill_family(pid_);
    static_cast<void>(wait(kKillTimeoutMs));
  }
}

int Child::wait(int timeout_ms) {
  const UniqueFd watched(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  pollfd ended{watched.get(), POLLIN, 0};
  if (watched && poll(&ended, 1, timeout_ms) == 0) {
    kill_family(pid_);
  }
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void pin_to(int cpu) {
  if (cpu >= 0) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(static_cast<std::size_t>(cpu), &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
  }
}

}  // namespace muster::bench
