// SPDX-License-Identifier: Apache-2.0
// HangWatch: the shell around HangCore. Checks the workers of this node when due, gathers evidence
// when they make no progress, and reports the verdict to its site. It never blocks: stacks come
// from child processes with time limits. Owned by the agent if --hang-timeout is on; runs on the
// loop's thread. Resource.
#pragma once

#include "base/time.hpp"
#include "hang/evidence.hpp"
#include "hang/hang_core.hpp"
#include "hang/report/verdict_text.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace asio {
class io_context;
}

namespace muster {
class LinuxRunner;
}

namespace muster::hang {

struct HangWatchSettings {
  HangSettings core;
  std::string py_spy = "py-spy";         // a path, or a name for PATH
  std::vector<std::string> environment;  // for the stack dumpers
};

struct HangReport {
  Verdict verdict;
  VerdictFacts facts;
  Evidence evidence;
};

class HangSite {
 public:
  virtual ~HangSite() = default;
  virtual void found(HangReport report) = 0;
  virtual void goes_on(Duration quiet) = 0;
  virtual void sees_nothing() = 0;
  // The workers make no progress. True: all nodes are being asked; look() and told() follow.
  [[nodiscard]] virtual bool ask_others() = 0;
  // The last step that each worker reported, by local rank; none if it reports none.
  [[nodiscard]] virtual std::vector<std::optional<std::uint64_t>> steps() = 0;
};

struct WatchedWorker {
  int rank = 0;
  int local_rank = 0;
  pid_t pid = 0;
  bool ended = false;
};

class HangWatch {
 public:
  HangWatch(asio::io_context& loop,
            LinuxRunner& runner,
            HangWatchSettings settings,
            HangSite& site);
  ~HangWatch();
  HangWatch(const HangWatch&) = delete;
  HangWatch& operator=(const HangWatch&) = delete;

  // The workers of an attempt are running.
  void begin(std::vector<WatchedWorker> workers, int world_size);
  // This worker exited successfully.
  void worker_ended(int local_rank);
  // All workers are being stopped.
  void end();

  // Many nodes: inspects the workers within this time; drops an earlier request.
  using Done = std::function<void(const Evidence&)>;
  void look(Duration within, Done done);
  // The latest evidence.
  [[nodiscard]] const Evidence& seen() const;
  // The verdict on all nodes; none: check again later.
  void told(const std::optional<Verdict>& verdict);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace muster::hang
