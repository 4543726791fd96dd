// SPDX-License-Identifier: Apache-2.0
// KinetoDaemon: stands in for dynolog, the daemon that PyTorch's profiler (Kineto) polls. If
// KINETO_USE_DAEMON is set, each process that has loaded PyTorch asks its daemon every 5 s whether
// it should record a trace. Without a daemon, PyTorch prints errors. KinetoDaemon answers through a
// socket in a temporary folder, and passes on the requests of musterctl profile. An event sink,
// so that it knows the workers. Owned by the agent; lives on its loop. Resource.
#pragma once

#include "agent/events/event_stream.hpp"
#include "base/error.hpp"
#include "base/time.hpp"
#include "status/profile_path.hpp"

#include <asio/posix/stream_descriptor.hpp>

#include <map>
#include <optional>
#include <string>

#include <sys/types.h>

namespace muster {

// A process that has not polled for this long is assumed not to poll again. A worker polls for the
// first time after it has imported PyTorch.
inline constexpr Duration kKinetoSilence = std::chrono::seconds(15);

class KinetoDaemon final : public EventSink {
 public:
  explicit KinetoDaemon(asio::io_context& loop) : socket_(loop) {}

  ~KinetoDaemon() override { close(); }

  KinetoDaemon(const KinetoDaemon&) = delete;
  KinetoDaemon& operator=(const KinetoDaemon&) = delete;

  // Creates the socket in a new temporary folder, and returns the name of the folder for
  // KINETO_IPC_SOCKET_DIR. Closes the previous socket. Error: system.
  [[nodiscard]] Result<std::string> open(const std::string& tmpdir);

  // Removes the socket and its folder.
  void close();

  // EventSink
  void take(const JobEvent& event) override;

  // Queues a request, which the rank's process receives when it polls. Returns an empty string, or
  // the reason why the request was refused.
  [[nodiscard]] std::string request(const ProfileRequest& request);

 private:
  struct Worker {
    int rank = 0;
    TimePoint started{};
  };

  // The process that polls for a rank. A worker may be a shell script that runs the program.
  struct Asker {
    pid_t pid = 0;
    int distance = 0;  // from the worker's own process
    TimePoint asked{};
  };

  struct Wanted {
    ProfileRequest request;
    TimePoint since{};
  };

  void listen();
  [[nodiscard]] bool receive();
  [[nodiscard]] std::map<int, Wanted>::iterator wanted_from(pid_t pid);
  [[nodiscard]] std::optional<int> rank_recorded_by(pid_t pid);

  asio::posix::stream_descriptor socket_;
  std::string folder_;               // empty without a socket
  std::map<pid_t, Worker> workers_;  // running workers, by pid
  std::map<int, Asker> askers_;      // by rank
  std::map<int, Wanted> wanted_;     // requests that no process has received, by rank
};

}  // namespace muster
