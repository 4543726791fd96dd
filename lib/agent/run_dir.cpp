// SPDX-License-Identifier: Apache-2.0
#include "agent/run_dir.hpp"

#include "plan/log_layout.hpp"

#include <cerrno>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr std::size_t kRandomLetters = 8;
constexpr const char* kInMemory = "/dev/shm";
constexpr mode_t kOwnerOnly = 0700;
constexpr mode_t kAsUmaskSays = 0777;

Result<void> make_folder(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST) {
    return std::unexpected(system_error("cannot make the folder '" + path + "'", errno));
  }
  return {};
}

// With all that are missing above it. A regular file in its place is an error of its own.
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
    return failure(Errc::usage, "--log-dir='" + path + "' is a file, not a folder");
  }
  return {};
}

bool writes_files(const LaunchConfig& config) {
  const auto any = [](const StdSpec& spec) {
    for (const auto& [rank, bits] : spec.by_rank) {
      if (bits != 0) {
        return true;
      }
    }
    return spec.all != 0;
  };
  return any(config.redirects) || any(config.tee);
}

// A folder for each worker costs 100 us on a disk's file system and 7 us in memory: with 64
// workers that was a fifth of the whole launch.
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
  return temporary_parent(config, environ) + "/muster_" + name;
}

void RunDir::remove_empty(const std::string& place) {
  const auto exists = [](const std::string& path) { return ::access(path.c_str(), F_OK) == 0; };
  if (!exists(place)) {
    return;
  }
  for (int attempt = 0; exists(attempt_dir(place, attempt)); ++attempt) {
    for (int rank = 0; exists(worker_dir(place, attempt, rank)); ++rank) {
      if (::rmdir(worker_dir(place, attempt, rank).c_str()) != 0) {
        break;
      }
    }
    if (::rmdir(attempt_dir(place, attempt).c_str()) != 0) {
      break;
    }
  }
  ::rmdir(place.c_str());
}

Result<RunDir> RunDir::make(const LaunchConfig& config,
                            const Environ& environ,
                            std::string_view random) {
  RunDir dir;
  if (config.logs_disabled) {
    return dir;
  }
  dir.path_ = place_of(config, environ, random);
  dir.temporary_ = config.log_dir.empty();
  if (!dir.temporary_) {
    if (const auto made = make_log_dir(config.log_dir); !made) {
      return std::unexpected(made.error());
    }
  }
  const auto made = make_folder(dir.path_, dir.temporary_ ? kOwnerOnly : kAsUmaskSays);
  if (!made && dir.temporary_ && !writes_files(config)) {
    return RunDir{};
  }
  if (!made) {
    return std::unexpected(made.error());
  }
  return dir;
}

Result<void> RunDir::make_attempt(int attempt, int nproc) {
  if (path_.empty()) {
    return {};
  }
  if (const auto made = make_folder(attempt_dir(path_, attempt), kAsUmaskSays); !made) {
    return made;
  }
  attempts_ = attempt + 1;
  nproc_ = nproc;
  for (int local_rank = 0; local_rank < nproc; ++local_rank) {
    if (auto made = make_folder(worker_dir(path_, attempt, local_rank), kAsUmaskSays); !made) {
      return made;
    }
  }
  return {};
}

bool RunDir::clean_up() {
  if (path_.empty() || !temporary_) {
    return !path_.empty();
  }
  for (int attempt = 0; attempt < attempts_; ++attempt) {
    for (int local_rank = 0; local_rank < nproc_; ++local_rank) {
      const std::string folder = worker_dir(path_, attempt, local_rank);
      if (::rmdir(folder.c_str()) != 0) {  // as a rule there is no error file
        ::unlink((folder + "/error.json").c_str());
        ::rmdir(folder.c_str());
      }
    }
    ::rmdir(attempt_dir(path_, attempt).c_str());
  }
  return ::rmdir(path_.c_str()) != 0;
}

}  // namespace muster
