// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/refusal_notes.hpp"

#include <utility>

namespace muster {
namespace {

constexpr Duration kBetween = std::chrono::minutes(1);

}  // namespace

std::optional<std::uint64_t> Seldom::add(TimePoint now) {
  if (silent_until_ && now < *silent_until_) {
    ++unsaid_;
    return std::nullopt;
  }
  silent_until_ = now + kBetween;
  return std::exchange(unsaid_, 0);
}

std::optional<std::string> RefusalNotes::refused(std::string_view peer,
                                                 const Error& why,
                                                 TimePoint now) {
  const auto unsaid = seldom_.add(now);
  if (!unsaid) {
    return std::nullopt;
  }
  std::string text = "refused the connection from " + std::string(peer) + ": " + why.message;
  if (*unsaid > 0) {
    text += " (and " + std::to_string(*unsaid) + " more since the last report)";
  }
  return text;
}

}  // namespace muster
