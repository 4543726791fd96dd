// SPDX-License-Identifier: Apache-2.0
// What every listener does so that strangers do not use up the descriptors of the process, and what
// when they are used up all the same: new connections wait in the backlog until one of the others
// ends. Value type.
#pragma once

#include "base/time.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

// So many descriptors may be held by connections that have not proved to be clients, and by those
// that are not admitted yet: whoever opens a thousand and says nothing must not keep the workers
// out. Asked again each time, since the limit of a running process may be changed.
[[nodiscard]] std::size_t quarter_of_descriptors();

// Whether accept failed for want of descriptors or memory.
[[nodiscard]] bool is_shortage(int errno_value);

// Whether somebody waits there. Without a free descriptor accept fails also where nobody does.
[[nodiscard]] bool has_backlog(int listener);

// Whether a listener accepts nobody for a while. Without a free descriptor it would stay readable
// and keep the loop busy for nothing. The listener ends the pause when one of its connections ends,
// and at `until`, since a descriptor may also have become free elsewhere.
class AcceptPause {
 public:
  // `whom`: who cannot come, as text.
  explicit AcceptPause(std::string_view whom) : whom_(whom) {}

  // One sentence for the log, the first time only.
  [[nodiscard]] std::optional<std::string> begin(TimePoint now, int why);

  // True if there was a pause.
  bool end();

  [[nodiscard]] std::optional<TimePoint> until() const { return until_; }

 private:
  std::string_view whom_;
  std::optional<TimePoint> until_;
  bool told_ = false;
};

}  // namespace muster
