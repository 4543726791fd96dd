// SPDX-License-Identifier: Apache-2.0
// FileFollower: reports when a followed file has grown. A watch fires once and is armed again when
// the file has been read to its end, so that a busy writer causes no events at all. Where inotify
// is not to be had (its instances are few in a container) a timer tells instead. Used by
// OutputPump on the loop's thread.
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

  // From now on; its file is open, and the caller reads once more after this call.
  void arm(OutputSource& source);

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
  std::map<int, OutputSource*> watches_;  // by inotify's number
  std::set<OutputSource*> unwatched_;     // looked at by the timer
};

}  // namespace muster
