// SPDX-License-Identifier: Apache-2.0
// JobProbe: starts a program with pipes on its outputs, and waits for text, for its exit and for
// the exit of all its descendants. Any surviving process holds the write end of standard output, so
// end-of-file proves that none is left. All waits are for events, with a deadline.
#pragma once

#include "base/fd.hpp"

#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace muster::testing {

struct Start {
  std::vector<std::string> argv;
  std::function<void()> in_child = {};  // before exec: signal dispositions, user, groups
  int standard_output = -1;             // instead of the pipe
};

class JobProbe {
 public:
  explicit JobProbe(const Start& start);
  ~JobProbe();
  JobProbe(const JobProbe&) = delete;
  JobProbe& operator=(const JobProbe&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }

  // Reads standard output until it contains `text`; false at the deadline or at end-of-file.
  [[nodiscard]] bool says(const std::string& text);

  // The same for standard error.
  [[nodiscard]] bool warns(const std::string& text);

  // The number after `text` in the output.
  [[nodiscard]] pid_t number_after(const std::string& text);

  // Reads both outputs to their ends; false if a process still holds one at the deadline.
  [[nodiscard]] bool nothing_is_left();

  // Waits for the program itself: the exit code, or 128 + signal; -1 at the deadline.
  [[nodiscard]] int exit_code();

  void signal(int signo) const;
  void close_output();

  [[nodiscard]] const std::string& out() const { return out_; }

  [[nodiscard]] const std::string& err() const { return err_; }

  [[nodiscard]] int out_fd() const { return out_fd_.get(); }

 private:
  pid_t pid_ = -1;
  bool reaped_ = false;
  UniqueFd out_fd_;
  UniqueFd err_fd_;
  std::string out_;
  std::string err_;
};

// A folder that is removed with its contents.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

[[nodiscard]] std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& text, unsigned mode = 0644);

// Waits until the process exits (pidfd); false at the deadline.
[[nodiscard]] bool ends(pid_t pid);

inline const std::string kPuppet = MUSTER_PUPPET;
inline const std::string kMiniJob = MUSTER_MINI_JOB;

// mini-job with these arguments.
[[nodiscard]] std::vector<std::string> mini_job(const std::vector<std::string>& args);

}  // namespace muster::testing
