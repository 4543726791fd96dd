// SPDX-License-Identifier: Apache-2.0
#include "agent/watch/preemption_texts.hpp"

#include "base/printable.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>

namespace muster {
namespace {

constexpr std::size_t kWhyMax = 200;
constexpr Duration kLeftMax = std::chrono::hours(24 * 7);
constexpr std::string_view kNoStep = "-";

using Milliseconds = std::chrono::milliseconds;

// Removes the first word from the text.
std::string_view take_word(std::string_view& text) {
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(std::min(text.size(), word.size() + 1));
  return word;
}

std::optional<std::uint64_t> number_of(std::string_view word) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  const bool whole = error == std::errc() && end == word.data() + word.size();
  return whole ? std::optional(number) : std::nullopt;
}

}  // namespace

std::string encode(const PreemptionNotice& notice) {
  const auto left = std::chrono::duration_cast<Milliseconds>(
      std::clamp<Duration>(notice.left, Duration::zero(), kLeftMax));
  return fmt::format("{} {}", left.count(), printable(notice.why, kWhyMax));
}

std::string encode(const ReportedStep& step) {
  return step ? fmt::format("{}", *step) : std::string(kNoStep);
}

std::string encode(const PreemptionDecision& decision) {
  return fmt::format("{} {}", encode(decision.step), encode(decision.notice));
}

std::optional<PreemptionNotice> decode_notice(std::string_view text) {
  const auto left = number_of(take_word(text));
  const auto most = std::chrono::duration_cast<Milliseconds>(kLeftMax).count();
  if (!left || std::cmp_greater(*left, most)) {
    return std::nullopt;
  }
  return PreemptionNotice{printable(text, kWhyMax), Milliseconds(*left)};
}

ReportedStep decode_step(std::string_view text) {
  return number_of(text);
}

std::optional<PreemptionDecision> decode_decision(std::string_view text) {
  const std::string_view step = take_word(text);
  const auto notice = decode_notice(text);
  if (!notice || (step != kNoStep && !number_of(step))) {
    return std::nullopt;
  }
  return PreemptionDecision{*notice, number_of(step)};
}

ReportedStep save_step(const std::vector<ReportedStep>& steps) {
  const auto latest = std::ranges::max_element(steps);
  if (latest == steps.end() || !*latest) {
    return std::nullopt;
  }
  const bool may_grow = **latest < std::numeric_limits<std::uint64_t>::max();
  return **latest + (may_grow ? 1 : 0);
}

}  // namespace muster
