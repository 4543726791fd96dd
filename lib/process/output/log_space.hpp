// SPDX-License-Identifier: Apache-2.0
// LogSpace: detects that the file system of the workers' log files is full. Workers write these
// files directly, so muster sees no error, and a full disk looks like a worker that prints nothing.
// Probes the file system after a file is opened, some time after a file has grown, and at the end
// of an attempt. Part of OutputPump; resource; lives on the loop's thread.
#pragma once

#include "base/fd.hpp"
#include "process/loop/poller.hpp"

#include <functional>
#include <string>

namespace muster {

class LogSpace final : public Watcher {
 public:
  // `on_full` is called once, with the directory and the errno of a failed write to it.
  LogSpace(Poller& poller, std::function<void(const std::string&, int)> on_full);
  ~LogSpace() override;
  LogSpace(const LogSpace&) = delete;
  LogSpace& operator=(const LogSpace&) = delete;

  // Call when a worker starts writing to this file.
  void note_file(const std::string& path);

  // Call when a file has grown. A write that fails on a full disk does not change the file, so this
  // schedules a check.
  void note_growth();

  void check();

  void on_ready() override;

 private:
  void stop_timer();

  Poller& poller_;
  std::function<void(const std::string&, int)> on_full_;
  std::string folder_;  // empty if no worker writes files
  UniqueFd timer_;      // set while a check is scheduled
  bool done_ = false;
};

// The errno from writing one page to a new temporary file in `folder`; 0 if there is space, or if
// the check is not possible.
[[nodiscard]] int full_disk_error(const std::string& folder);

}  // namespace muster
