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

class RefusalNotes {
 public:
  // The sentence to say, if one is to be said.
  [[nodiscard]] std::optional<std::string> refused(std::string_view peer,
                                                   const Error& why,
                                                   TimePoint now);

  // Since the beginning.
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  std::optional<TimePoint> silent_until_;
  std::uint64_t count_ = 0;
  std::uint64_t unsaid_ = 0;
};

}  // namespace muster
