// SPDX-License-Identifier: Apache-2.0
// RunDir: the folder of one run, for logs, the workers' error files and the report. Below --log-dir
// it is the user's and stays; else it lies below $TMPDIR for the error files alone and goes away
// again, unless somebody put more into it. Used by the agent only. Resource.
#pragma once

#include "base/environ.hpp"
#include "base/error.hpp"
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

  // Where the folder of a run lies, or would lie.
  [[nodiscard]] static std::string place_of(const LaunchConfig& config,
                                            const Environ& environ,
                                            std::string_view random);

  // For the guard, whose agent may have been killed: removes the folders below `place`, and itself,
  // that have nothing in them.
  static void remove_empty(const std::string& place);

  [[nodiscard]] const std::string& path() const { return path_; }

  // The folders of an attempt's workers, where their error files will be.
  [[nodiscard]] Result<void> make_attempt(int attempt, int nproc);

  // Removes error files and empty folders of a temporary run folder. True: the folder is still
  // there, with something in it.
  bool clean_up();

 private:
  std::string path_;
  bool temporary_ = false;
  int attempts_ = 0;
  int nproc_ = 0;
};

}  // namespace muster
