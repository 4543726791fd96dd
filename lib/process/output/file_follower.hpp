// SPDX-License-Identifier: Apache-2.0
// FileFollower: reports when a followed file has grown. A watch fires once and is rearmed after the
// file has been read to its end, so a busy writer causes no events. If inotify is unavailable
// (containers often allow few instances), a timer is used instead. Used by OutputPump on the loop's
// thread.
#pragma once

#include "base/fd.hpp"
#include "process/loop/poller.hpp"
#include "process/output/output_source.hpp"

#include <functional>
#include <map>
#include <set>

namespace muster {

class FileFollower final : public Watcher {
 public:
  FileFollower(Poller& poller, std::function<void(OutputSource&)> on_change);
  ~FileFollower() override;
  FileFollower(const FileFollower&) = delete;
  FileFollower& operator=(const FileFollower&) = delete;

  // Starts watching. The file must be open, and the caller must read once more after this call.
  void arm(OutputSource& source);

  void forget(const OutputSource& source);
  void forget_all();

  void on_ready() override;

 private:
  void open();
  void open_timer();

  Poller& poller_;
  std::function<void(OutputSource&)> on_change_;
  bool opened_ = false;
  UniqueFd inotify_;
  UniqueFd timer_;
  std::map<int, OutputSource*> watches_;  // by inotify watch descriptor
  std::set<OutputSource*> unwatched_;     // polled by the timer
};

}  // namespace muster
