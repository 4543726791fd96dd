// SPDX-License-Identifier: Apache-2.0
// RefusalNotes: log lines about refused connections. Logs the first refusal, then one per minute
// with the number of refusals in between, so that no peer can flood the log. Pure.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

// Limits the rate of a repeated message. The first one is logged, then at most one per minute.
class Seldom {
 public:
  // The number of messages suppressed since the last printed message; nullopt if this message is to
  // be suppressed.
  [[nodiscard]] std::optional<std::uint64_t> add(TimePoint now);

 private:
  std::optional<TimePoint> silent_until_;
  std::uint64_t unsaid_ = 0;
};

class RefusalNotes {
 public:
  // The text to log, if any.
  [[nodiscard]] std::optional<std::string> refused(std::string_view peer,
                                                   const Error& why,
                                                   TimePoint now);

 private:
  Seldom seldom_;
};

}  // namespace muster
