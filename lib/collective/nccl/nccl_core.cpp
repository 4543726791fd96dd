// SPDX-License-Identifier: Apache-2.0
#include "collective/nccl/nccl_core.hpp"

#include "base/text.hpp"

#include <algorithm>

namespace muster::collective::nccl {

PollCore::Step PollCore::next(int answer, TimePoint now) {
  if (answer == kSuccess) {
    return {.kind = Step::Kind::ended};
  }
  if (ends_communicator(answer)) {
    return {.kind = Step::Kind::failed};
  }
  if (now >= deadline_) {
    return {.kind = Step::Kind::late};
  }
  if (now - first_asked_.value_or(now) < kEager) {
    first_asked_ = first_asked_.value_or(now);
    return {.kind = Step::Kind::again};
  }
  const Duration pause = std::min(pause_, deadline_ - now);
  pause_ = std::min(2 * pause_, kLongestPause);
  return {.kind = Step::Kind::again, .pause = pause};
}

bool OperationClock::overdue(TimePoint now) const {
  return started_ ? now - *started_ > timeout_ : (now - queued_) / kQueuedFactor > timeout_;
}

bool asks_for_blocking(const std::optional<std::string>& variable,
                       const std::vector<std::string>& conf_files) {
  constexpr std::string_view kName = "NCCL_COMM_BLOCKING";
  if (variable) {
    return parse_int(*variable).value_or(0) != 0;
  }
  for (const auto& text : conf_files) {
    for (const auto& line : split(text, '\n')) {
      const auto equals = line.find('=');
      if (equals != std::string::npos && trim(line.substr(0, equals)) == kName) {
        return parse_int(line.substr(equals + 1)).value_or(0) != 0;
      }
    }
  }
  return false;
}

}  // namespace muster::collective::nccl
