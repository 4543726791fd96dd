// SPDX-License-Identifier: Apache-2.0
// Protection of a listener against running out of descriptors. Strangers may use only part of them.
// If none is free, new connections wait in the backlog until another one closes. Value type.
#pragma once

#include "base/time.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

// Maximum number of descriptors for connections that have not proved to be clients or are not
// admitted yet, so that idle connections cannot lock out workers. Read each time, because the limit
// of a running process may change.
[[nodiscard]] std::size_t quarter_of_descriptors();

// True if accept failed for lack of descriptors or memory.
[[nodiscard]] bool is_shortage(int errno_value);

// True if a connection is waiting. Without a free descriptor, accept fails even if none is.
[[nodiscard]] bool has_backlog(int listener);

// Pauses accepting. Without a free descriptor the listener would stay readable and keep the loop
// busy. The pause ends when one of the listener's connections closes, and at `until`, because a
// descriptor may also have been freed elsewhere.
class AcceptPause {
 public:
  // `whom`: the kind of peer that cannot connect, for the text.
  explicit AcceptPause(std::string_view whom) : whom_(whom) {}

  // A log line, only the first time.
  [[nodiscard]] std::optional<std::string> begin(TimePoint now, int why);

  // True if accepting was paused.
  bool end();

  [[nodiscard]] std::optional<TimePoint> until() const { return until_; }

 private:
  std::string_view whom_;
  std::optional<TimePoint> until_;
  bool told_ = false;
};

}  // namespace muster
