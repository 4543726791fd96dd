// SPDX-License-Identifier: Apache-2.0
// RunDir: the folder of one run, for logs, the workers' error files and the report. Below --log-dir
// it is the user's and stays; else it lies below $TMPDIR for the error files alone and goes away
// again, unless somebody put more into it. Used by the agent only. Resource.
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
  // Makes the folder. Where logs are disabled, or nothing has to be written and there is no place
  // for temporary files (an empty chroot), there is none and path() is empty. Errors: system.
  [[nodiscard]] static Result<RunDir> make(const LaunchConfig& config,
                                           const Environ& environ,
                                           std::string_view random);

  // For a run whose folder has disappeared or takes no more files: makes it again with the folders
  // of an attempt, at its place or in another temporary folder. path() is empty where no folder can
  // be made.
  [[nodiscard]] static RunDir make_again(const LaunchConfig& config,
                                         const Environ& environ,
                                         std::string_view random,
                                         int attempt);

  // Where the folder of a run lies, or would lie.
  [[nodiscard]] static std::string place_of(const LaunchConfig& config,
                                            const Environ& environ,
                                            std::string_view random);

  // For the guard, whose agent may have been killed: removes error files and empty folders of a
  // temporary run folder, and itself unless there is more in it.
  static void remove_left(const std::string& place);

  [[nodiscard]] const std::string& path() const { return path_; }

  // The folders of an attempt's workers, where their error files will be.
  [[nodiscard]] Result<void> make_attempt(int attempt, int nproc);

  // The folder of an attempt as an absolute path, where named pipes can be made in it; else empty:
  // in some versions of PyTorch nobody catches that a worker cannot make its own.
  [[nodiscard]] std::string place_of_pipes(int attempt) const;

  // Removes error files and empty folders of a temporary run folder; after a job that did not fail
  // also logs that were shown on the console (--tee). True: the folder is still there, with
  // something in it.
  bool clean_up(bool failed);

 private:
  // In a folder that is there.
  [[nodiscard]] static Result<RunDir> make_at(std::string path, const LaunchConfig& config);

  std::string path_;
  bool temporary_ = false;
  bool only_tee_ = false;  // nothing is in the logs that was not shown
  // Held on a folder in memory for as long as the agent lives, so that a later run can tell that
  // nobody needs it any more (see remove_stale).
  UniqueFd lock_;
};

}  // namespace muster
