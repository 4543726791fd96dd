// SPDX-License-Identifier: Apache-2.0
// RefusalNotes: what the log hears of connections that were refused: the first one, then one a
// minute with the number of those in between, so that nobody can fill a log by knocking. Pure.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

// Whether to say something that comes again and again: at first, and once a minute.
class Seldom {
 public:
  // How many times it was not said since the last time; nothing: it is not said now.
  [[nodiscard]] std::optional<std::uint64_t> add(TimePoint now);

 private:
  std::optional<TimePoint> silent_until_;
  std::uint64_t unsaid_ = 0;
};

class RefusalNotes {
 public:
  // The sentence to say, if one is to be said.
  [[nodiscard]] std::optional<std::string> refused(std::string_view peer,
                                                   const Error& why,
                                                   TimePoint now);

 private:
  Seldom seldom_;
};

}  // namespace muster
