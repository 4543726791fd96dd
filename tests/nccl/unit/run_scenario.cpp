// SPDX-License-Identifier: Apache-2.0
#include "nccl/unit/run_scenario.hpp"

#include "base/check.hpp"

#include <array>
#include <cstdlib>
#include <filesystem>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace muster::testing {

int Ended::exit_code() const {
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

namespace {

// Scenarios that are terminated leave the files through which their ranks met.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "muster-nccl-XXXXXX").string();
    MUSTER_CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the test has one thread here
    MUSTER_CHECK(setenv("MUSTER_FAKE_NCCL_DIR", name.c_str(), 1) == 0);
  }

  ~Folder() {
    unsetenv("MUSTER_FAKE_NCCL_DIR");  // NOLINT(concurrency-mt-unsafe)
    std::error_code none;
    std::filesystem::remove_all(path_, none);
  }

  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

 private:
  std::filesystem::path path_;
};

}  // namespace

Ended run_scenario(std::vector<std::string> args) {
  const Folder folder;
  args.insert(args.begin(), MUSTER_NCCL_SCENARIO);
  std::vector<char*> argv;
  for (auto& word : args) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  std::array<int, 2> ends{};
  MUSTER_CHECK(pipe(ends.data()) == 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  pid_t pid = 0;
  MUSTER_CHECK(posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  Ended ended;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    ended.output.append(buffer.data(), static_cast<std::size_t>(got));
  }
  close(ends[0]);
  waitpid(pid, &ended.status, 0);
  return ended;
}

}  // namespace muster::testing
