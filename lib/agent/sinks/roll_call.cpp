// SPDX-License-Identifier: Apache-2.0
#include "agent/sinks/roll_call.hpp"

#include "base/plural.hpp"
#include "base/printable.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace muster {
namespace {

constexpr const char* kRewrite = "\r\x1b[K";
constexpr std::size_t kRefusalBytesMax = 800;  // a refusal may contain two commands
constexpr std::size_t kRefusalsShownMax = 64;  // an unknown node may reconnect forever

std::string names_of(const RollCall& call) {
  const auto here = static_cast<std::size_t>(std::max(call.present, 0));
  const std::size_t more = here - std::min(here, call.names.size());
  return name_some(
      call.names, [](const std::string& name) { return name; }, more);
}

// The missing nodes: their names if known, or else their number.
std::string missing_in(const RollCall& call) {
  if (!call.awaited.empty()) {
    return name_some(call.awaited, [](const std::string& name) { return name; });
  }
  const int missing = call.needed - call.present;
  return missing > 0 ? fmt::format("{} more", missing) : std::string();
}

}  // namespace

std::string describe(const RollCall& call) {
  if (call.needed <= 0) {
    return {};
  }
  if (call.present >= call.needed && call.awaited.empty()) {
    // A round is running without this node and is not waiting for any other node.
    return fmt::format("the job is running on {}: {}; this node is waiting to be admitted",
                       counted(call.present, "node"),
                       names_of(call));
  }
  const std::string count =
      call.present < call.needed
          ? fmt::format("{} of {}", call.present, counted(call.needed, "node"))
          : counted(call.present, "node");
  std::string text = fmt::format("{} {} here", count, is_are(call.present));
  if (!call.names.empty()) {
    text += ": " + names_of(call);
  }
  if (const std::string missing = missing_in(call); !missing.empty()) {
    text += "; waiting for " + missing;
  }
  return text;
}

void RollCallView::begin(TimePoint now) {
  since_ = now;
  counts_from_ = now;
  repeats_ = true;
  news_ = false;
  call_ = RollCall{};
  trouble_.clear();
  shown_.clear();
}

std::string RollCallView::take(TimePoint now, const RollCall& call, const std::string& trouble) {
  if (!since_ || style_.silent) {
    return {};
  }
  if (call.needed > 0) {
    call_ = call;  // while this node cannot connect, the previous list remains
  }
  trouble_ = trouble;
  news_ = true;
  if (call.needed > 0 && !is_missing()) {
    counts_from_.reset();  // a node that waits to be admitted never gives up
  }
  return now >= *since_ + kRollCallQuiet ? show(now) : std::string();
}

void RollCallView::worker_ended(TimePoint now) {
  if (counts_from_) {
    counts_from_ = now;
  }
}

// False for a spare node, which may wait for days although no node is missing.
bool RollCallView::is_missing() const {
  return call_.present < call_.needed || !call_.awaited.empty() || !trouble_.empty();
}

bool RollCallView::repeats() const {
  return repeats_ && !shown_.empty() && is_missing();
}

std::string RollCallView::time_left(TimePoint now) const {
  if (!repeats_ || !is_missing() || !counts_from_) {
    return {};
  }
  const Duration left = *counts_from_ + style_.give_up - now;
  if (left <= Duration::zero()) {
    return {};
  }
  return fmt::format("; giving up in {} s", std::chrono::ceil<std::chrono::seconds>(left).count());
}

std::optional<TimePoint> RollCallView::next_deadline() const {
  if (since_ && news_) {
    return *since_ + kRollCallQuiet;
  }
  return since_ && repeats() ? std::optional(shown_at_ + kRollCallRepeat) : std::nullopt;
}

std::string RollCallView::tick(TimePoint now) {
  const auto due = next_deadline();
  if (!due || now < *due) {
    return {};
  }
  if (news_) {
    return show(now);
  }
  shown_at_ = now;
  const auto waited = std::chrono::duration_cast<std::chrono::seconds>(now - *since_);
  return line(fmt::format("after {} s: {}{}", waited.count(), shown_, time_left(now)));
}

// On a terminal, refusals also stay on the screen, because the user must act on them.
std::string RollCallView::show(TimePoint now) {
  news_ = false;
  shown_at_ = now;
  std::string out;
  for (const std::string& refused : call_.refused) {
    if (refusals_shown_.size() < kRefusalsShownMax && refusals_shown_.insert(refused).second) {
      out += end() + fmt::format("muster: refused node {}\n", printable(refused, kRefusalBytesMax));
    }
  }
  const std::string text = trouble_.empty() ? describe(call_) : trouble_ + "; trying again";
  if (!text.empty() && (text != shown_ || !out.empty())) {
    out += text != shown_ || style_.live ? line(text + time_left(now)) : std::string();
    shown_ = text;
  }
  return out;
}

std::string RollCallView::line(const std::string& text) {
  if (!style_.live) {
    return fmt::format("muster: {}\n", printable(text));
  }
  line_there_ = true;
  const std::size_t room = std::max<std::size_t>(style_.columns, 24) - 4;
  return kRewrite + printable("muster: " + text, room);
}

std::string RollCallView::end() {
  if (!line_there_) {
    return {};
  }
  line_there_ = false;
  return kRewrite;
}

std::string RollCallView::summary() const {
  return trouble_.empty() ? describe(call_) : std::string();
}

}  // namespace muster
