// SPDX-License-Identifier: Apache-2.0
#include "agent/sinks/roll_call_lines.hpp"

#include "base/clock.hpp"

#include <utility>
#include <variant>

namespace muster {

RollCallLines::RollCallLines(asio::io_context& loop, const RollCallStyle& style, Show show)
    : timer_(loop), view_(style), show_(std::move(show)) {}

void RollCallLines::take(const JobEvent& event) {
  if (std::holds_alternative<event::RoundAwaited>(event.what)) {
    view_.begin(steady_now());
  } else if (std::holds_alternative<event::WorkerEnded>(event.what)) {
    view_.worker_ended(steady_now());
  } else if (std::holds_alternative<event::PartDone>(event.what)) {
    view_.stop_repeating();
  } else if (const auto* heard = std::get_if<event::RollCallHeard>(&event.what)) {
    hear(*heard);
  } else if (std::holds_alternative<event::RoundBegun>(event.what) ||
             std::holds_alternative<event::JobEnded>(event.what)) {
    stop();
  }
}

void RollCallLines::hear(const event::RollCallHeard& heard) {
  show(view_.take(steady_now(), heard.call, heard.trouble));
  arm();
}

void RollCallLines::stop() {
  clear_line();
  view_.stop_repeating();
  timer_.cancel();
}

void RollCallLines::clear_line() {
  show(view_.end());
}

void RollCallLines::show(const std::string& text) {
  if (!text.empty()) {
    show_(text);
  }
}

void RollCallLines::arm() {
  const auto due = view_.next_deadline();
  if (!due) {
    return;
  }
  timer_.expires_at(*due);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) {
      show(view_.tick(steady_now()));
      arm();
    }
  });
}

}  // namespace muster
