// SPDX-License-Identifier: Apache-2.0
// RunDir: the directory of one run, for logs, the workers' error files and the report. Under
// --log-dir it belongs to the user and is kept. Otherwise it is a temporary directory for error
// files only, and is removed unless another program wrote files into it. Used by the agent only.
// Resource.
#pragma once

#include "base/environ.hpp"
#include "base/error.hpp"
#include "base/fd.hpp"
#include "config/launch_config.hpp"

#include <string>
#include <string_view>

namespace muster {

class RunDir {
 public:
  // Creates the directory. No directory is created, and path() is empty, if logs are disabled, or
  // if no file is needed and no temporary directory exists (an empty chroot). Error: system.
  [[nodiscard]] static Result<RunDir> make(const LaunchConfig& config,
                                           const Environ& environ,
                                           std::string_view random);

  // For a run whose directory was removed or is full: recreates the run directory and the
  // subdirectories of an attempt, at the same path or in another temporary directory. path() is
  // empty if this fails.
  [[nodiscard]] static RunDir make_again(const LaunchConfig& config,
                                         const Environ& environ,
                                         std::string_view random,
                                         int attempt);

  // The path of a run's directory, even if it does not exist.
  [[nodiscard]] static std::string place_of(const LaunchConfig& config,
                                            const Environ& environ,
                                            std::string_view random);

  // For the guard, after the agent may have been killed: removes error files and empty
  // subdirectories of a temporary run directory, then the directory itself unless it has other
  // content.
  static void remove_left(const std::string& place);

  [[nodiscard]] const std::string& path() const { return path_; }

  // Creates the directories of an attempt's workers, for their error files.
  [[nodiscard]] Result<void> make_attempt(int attempt, int nproc);

  // Creates the directory of a worker's replacement. If that fails, the worker has no error file.
  void make_worker(int attempt, int local_rank, int replacement) const;

  // The absolute path of an attempt's directory if named pipes can be created in it, else empty.
  // Some versions of PyTorch do not catch the exception that occurs when a worker cannot create its
  // pipe.
  [[nodiscard]] std::string place_of_pipes(int attempt) const;

  // Removes error files and empty subdirectories of a temporary run directory. Unless the job
  // failed, also removes logs that were shown on the console (--tee). True if the directory still
  // exists, with content.
  bool clean_up(bool failed);

 private:
  // The parent directory must exist.
  [[nodiscard]] static Result<RunDir> make_at(std::string path, const LaunchConfig& config);

  std::string path_;
  bool temporary_ = false;
  bool only_tee_ = false;  // the logs contain only output that was also shown
  // A lock on a directory in /dev/shm, held while the agent lives, so that a later run can detect
  // unused directories (see remove_stale).
  UniqueFd lock_;
};

}  // namespace muster
