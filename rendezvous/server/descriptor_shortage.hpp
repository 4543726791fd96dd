// SPDX-License-Identifier: Apache-2.0
// Protects a listener when the process runs out of descriptors. Strangers may use only some of the
// descriptors. If no descriptor is free, new connections wait in the backlog until another
// connection closes. Value type.
#pragma once

#include "base/time.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

// Maximum number of descriptors for connections that are not admitted yet or have not proved to be
// clients, so that idle connections cannot lock out workers. Computed on each call, because the
// limit of a running process may change.
[[nodiscard]] std::size_t quarter_of_descriptors();

// True if accept failed for lack of descriptors or memory.
[[nodiscard]] bool is_shortage(int errno_value);

// True if a connection is waiting in the backlog. accept() does not show this: without a free
// descriptor, it fails even if no connection is waiting.
[[nodiscard]] bool has_backlog(int listener);

// Pauses accepting. Without a free descriptor, the listener would remain readable and keep the loop
// busy. The pause ends when one of the listener's connections closes, or at `until`, because
// descriptors may also be freed elsewhere.
class AcceptPause {
 public:
  // `whom` is the kind of peer that cannot connect, for the message.
  explicit AcceptPause(std::string_view whom) : whom_(whom) {}

  // Returns a log line the first time.
  [[nodiscard]] std::optional<std::string> begin(TimePoint now, int why);

  // Returns true if accepting was paused.
  bool end();

  [[nodiscard]] std::optional<TimePoint> until() const { return until_; }

 private:
  std::string_view whom_;
  std::optional<TimePoint> until_;
  bool told_ = false;
};

}  // namespace muster
