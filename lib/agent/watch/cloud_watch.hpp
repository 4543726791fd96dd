// SPDX-License-Identifier: Apache-2.0
// CloudWatch: for --preempt-url. Asks a cloud's metadata service, with curl, whether this machine
// will be preempted. Owned by PreemptionControl; lives on the agent's loop. Resource.
#pragma once

#include "agent/events/event_stream.hpp"
#include "agent/watch/cloud_notice.hpp"
#include "base/environ.hpp"
#include "base/time.hpp"
#include "process/start/helper_process.hpp"

#include <asio/steady_timer.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace muster {

// As AWS recommends; the notice of Google Cloud comes 30 s before the machine stops.
inline constexpr Duration kCloudInterval = std::chrono::seconds(5);
inline constexpr Duration kCloudTimeout = std::chrono::seconds(4);  // for one answer

class CloudWatch {
 public:
  // Called once, with the time at which the machine stops (in seconds since 1970), if it is known.
  using Found = std::function<void(std::optional<std::int64_t> unix_time)>;

  CloudWatch(asio::io_context& loop, const Environ& variables, EventStream& events);

  void start(const std::string& source, Found found);
  void stop();

 private:
  void ask();
  void ask_later();
  void take(const std::string& printed);
  void complain(const std::string& problem);

  asio::io_context& loop_;
  const Environ& environ_;
  EventStream& events_;
  asio::steady_timer timer_;
  std::unique_ptr<HelperProcess> curl_;
  std::string source_;
  std::optional<CloudNotice> notice_;
  Found found_;
  bool has_complained_ = false;
};

}  // namespace muster
