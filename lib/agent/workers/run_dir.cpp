// SPDX-License-Identifier: Apache-2.0
#include "agent/workers/run_dir.hpp"

#include "base/clock.hpp"
#include "plan/log_layout.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr std::size_t kRandomLetters = 8;
constexpr const char* kInMemory = "/dev/shm";
constexpr const char* kPrefix = "muster_";
constexpr double kStaleSeconds = 60;
constexpr int kEntriesLookedAtMax = 1000;
constexpr mode_t kOwnerOnly = 0700;
constexpr mode_t kOwnerReads = 0600;
constexpr mode_t kAsUmaskSays = 0777;

Result<void> make_folder(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST) {
    return std::unexpected(system_error("cannot create directory '" + path + "'", errno));
  }
  return {};
}

// For parent directories that other users can write to: an existing directory there may belong to
// another user.
Result<void> make_own_folder(const std::string& path) {
  if (::mkdir(path.c_str(), kOwnerOnly) != 0) {
    return std::unexpected(system_error("cannot create directory '" + path + "'", errno));
  }
  return {};
}

// Creates missing parents too. A regular file at this path is reported as a separate error.
Result<void> make_log_dir(const std::string& path) {
  for (auto slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    if (const auto made = make_folder(path.substr(0, slash), kAsUmaskSays); !made) {
      return made;
    }
  }
  if (const auto made = make_folder(path, kAsUmaskSays); !made) {
    return made;
  }

  struct stat facts {};

  if (::stat(path.c_str(), &facts) == 0 && !S_ISDIR(facts.st_mode)) {
    return failure(Errc::usage, "--log-dir='" + path + "' is a file, not a directory");
  }
  return {};
}

bool any_stream(const StdSpec& spec) {
  for (const auto& [rank, bits] : spec.by_rank) {
    if (bits != 0) {
      return true;
    }
  }
  return spec.all != 0;
}

bool writes_files(const LaunchConfig& config) {
  return any_stream(config.redirects) || any_stream(config.tee);
}

using Names = std::vector<const char*>;

// Removes a directory if it contains only files from `files`; true if the directory no longer
// exists. Usually the directory is empty.
bool remove_folder(const std::string& path, const Names& files) {
  if (::rmdir(path.c_str()) == 0) {
    return true;
  }
  for (const char* file : files) {
    ::unlink((path + "/" + file).c_str());
  }
  return ::rmdir(path.c_str()) == 0;
}

std::vector<std::string> folders_in(const std::string& path) {
  std::vector<std::string> out;
  std::error_code error;
  for (std::filesystem::directory_iterator at(path, error);
       !error && at != std::filesystem::directory_iterator();
       at.increment(error)) {
    if (at->is_directory(error) && !at->is_symlink(error)) {
      out.push_back(at->path());
    }
  }
  return out;
}

// Removes the named pipes of PyTorch's flight recorders and timers, and dumps that were written too
// late to be read. Dumps that muster did not request are kept.
void remove_pipes(const std::string& attempt) {
  std::error_code error;
  for (std::filesystem::directory_iterator at(attempt, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename();
    if (name.starts_with(kNcclPipeStem) || name.starts_with(kTorchFlightStem) ||
        (name == kTimerPipe && at->is_fifo(error))) {
      ::unlink(at->path().c_str());
    }
  }
}

// Removes a run directory if it contains only files that muster created; true if it no longer
// exists.
bool remove_known(const std::string& run, const Names& of_worker, const Names& of_attempt) {
  for (const std::string& attempt : folders_in(run)) {
    for (const std::string& worker : folders_in(attempt)) {
      remove_folder(worker, of_worker);
    }
    remove_pipes(attempt);
    remove_folder(attempt, of_attempt);
  }
  return ::rmdir(run.c_str()) == 0 || errno == ENOENT;
}

// True for one of our directories on which no process holds a lock. A directory that was just
// created may not be locked yet.
bool is_stale(const std::string& path) {
  struct stat facts {};

  if (::lstat(path.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode) ||
      facts.st_uid != ::geteuid() ||
      wall_now_seconds() - static_cast<double>(facts.st_mtime) < kStaleSeconds) {
    return false;
  }
  const UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  return folder && ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0;
}

// Removes directories of runs whose guard and agent were both killed. Checks only /dev/shm, where
// such directories would stay until the host reboots.
void remove_stale() {
  std::error_code error;
  std::filesystem::directory_iterator entries(kInMemory, error);
  for (int seen = 0;
       !error && entries != std::filesystem::directory_iterator() && seen < kEntriesLookedAtMax;
       ++seen, entries.increment(error)) {
    const std::string path = entries->path();
    if (entries->path().filename().string().starts_with(kPrefix) && is_stale(path)) {
      RunDir::remove_left(path);
    }
  }
}

// Creating a directory for each worker takes 100 us on a disk file system and 7 us on tmpfs. With
// 64 workers, the former took one fifth of the launch time.
std::string temporary_parent(const LaunchConfig& config, const Environ& environ) {
  if (auto chosen = environ.get("TMPDIR"); chosen && !chosen->empty()) {
    return *chosen;
  }
  return !writes_files(config) && ::access(kInMemory, W_OK | X_OK) == 0 ? kInMemory : "/tmp";
}

}  // namespace

std::string RunDir::place_of(const LaunchConfig& config,
                             const Environ& environ,
                             std::string_view random) {
  const std::string name = run_dir_name(config.rdzv_id, random.substr(0, kRandomLetters));
  if (!config.log_dir.empty()) {
    return config.log_dir + "/" + name;
  }
  return temporary_parent(config, environ) + "/" + kPrefix + name;
}

void RunDir::remove_left(const std::string& place) {
  remove_known(place, {"error.json"}, {});
}

Result<RunDir> RunDir::make_at(std::string path, const LaunchConfig& config) {
  RunDir dir;
  dir.path_ = std::move(path);
  dir.temporary_ = config.log_dir.empty();
  const bool is_shared = dir.path_.starts_with(config.log_dir + "/") && !dir.temporary_;
  const auto made = is_shared ? make_folder(dir.path_, kAsUmaskSays) : make_own_folder(dir.path_);
  MUSTER_RETURN_IF_ERROR(made);
  dir.only_tee_ = !any_stream(config.redirects);
  if (dir.path_.starts_with(kInMemory)) {
    dir.lock_ = UniqueFd(::open(dir.path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    // The descriptor is close-on-exec, so a worker's child cannot keep the lock.
    ::flock(dir.lock_.get(), LOCK_SH | LOCK_NB);
    remove_stale();
  }
  return dir;
}

Result<RunDir> RunDir::make(const LaunchConfig& config,
                            const Environ& environ,
                            std::string_view random) {
  if (config.logs_disabled) {
    return RunDir{};
  }
  if (!config.log_dir.empty()) {
    MUSTER_RETURN_IF_ERROR(make_log_dir(config.log_dir));
  }
  auto dir = make_at(place_of(config, environ, random), config);
  if (!dir && config.log_dir.empty() && !writes_files(config)) {
    return RunDir{};
  }
  return dir;
}

RunDir RunDir::make_again(const LaunchConfig& config,
                          const Environ& environ,
                          std::string_view random,
                          int attempt) {
  if (!config.log_dir.empty()) {
    static_cast<void>(make_log_dir(config.log_dir));  // if this fails, the next mkdir fails too
  }
  const std::string own = place_of(config, environ, random);
  std::vector<std::string> places{own};
  for (const std::string& parent :
       {temporary_parent(config, environ), std::string("/tmp"), std::string(kInMemory)}) {
    places.push_back(parent + "/" + kPrefix +
                     run_dir_name(config.rdzv_id, random.substr(0, kRandomLetters)));
  }
  for (const std::string& place : places) {
    auto dir = make_at(place, config);
    if (dir && dir->make_attempt(attempt, config.nproc)) {
      return std::move(*dir);
    }
    if (dir) {
      remove_left(place);  // removes the part that was created
    }
  }
  return {};
}

Result<void> RunDir::make_attempt(int attempt, int nproc) {
  if (path_.empty()) {
    return {};
  }
  if (const auto made = make_folder(attempt_dir(path_, attempt), kAsUmaskSays); !made) {
    return made;
  }
  for (int local_rank = 0; local_rank < nproc; ++local_rank) {
    if (auto made = make_folder(worker_dir(path_, attempt, local_rank), kAsUmaskSays); !made) {
      return made;
    }
  }
  return {};
}

void RunDir::make_worker(int attempt, int local_rank, int replacement) const {
  if (!path_.empty()) {
    static_cast<void>(
        make_folder(worker_dir(path_, attempt, local_rank, replacement), kAsUmaskSays));
  }
}

std::string RunDir::place_of_pipes(int attempt) const {
  if (path_.empty()) {
    return "";
  }
  std::error_code error;
  const std::string folder = std::filesystem::absolute(attempt_dir(path_, attempt), error).string();
  const std::string probe = fmt::format("{}/{}probe", folder, kTorchFlightStem);
  const bool made = !error && ::mkfifo(probe.c_str(), kOwnerReads) == 0;
  ::unlink(probe.c_str());
  return made ? folder : "";
}

bool RunDir::clean_up(bool failed) {
  if (path_.empty()) {
    return false;
  }
  if (!temporary_) {
    std::ranges::for_each(folders_in(path_), remove_pipes);
    return make_log_dir(path_).has_value();  // for the report, in case the directory was removed
  }
  if (only_tee_ && !failed) {
    return !remove_known(path_,
                         {"error.json", "stdout.log", "stderr.log"},
                         {"filtered_stdout.log", "filtered_stderr.log"});
  }
  return !remove_known(path_, {"error.json"}, {});
}

}  // namespace muster
