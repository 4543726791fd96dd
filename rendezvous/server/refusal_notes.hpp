// SPDX-License-Identifier: Apache-2.0
// RefusalNotes: log lines about refused connections. Logs the first one, then one a minute with the
// number of those in between, so that no peer can flood the log. Pure.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

// Rate limit for a repeated message: the first time, then once a minute.
class Seldom {
 public:
  // The number of times suppressed since the last message; nullopt: suppress this one.
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
