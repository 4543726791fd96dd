// SPDX-License-Identifier: Apache-2.0
#include "agent/watch/step_watch.hpp"

#include "base/clock.hpp"

#include <asio/io_context.hpp>

#include <algorithm>
#include <chrono>

namespace muster {
namespace {

constexpr Duration kLookMin = std::chrono::milliseconds(10);
constexpr Duration kLookMax = std::chrono::seconds(1);
// The interval between two polls is this fraction of the time since the start of the workers, which
// limits the error.
constexpr int kLooksPerStart = 16;

}  // namespace

StepWatch::StepWatch(asio::io_context& loop, EventStream& events, WorkerChannel& channel)
    : events_(events), channel_(channel), timer_(loop) {}

void StepWatch::take(const JobEvent& event) {
  if (std::holds_alternative<event::RoundBegun>(event.what)) {
    has_stepped_ = false;
    last_step_.reset();
    timer_.cancel();
  } else if (std::holds_alternative<event::WorkerStarted>(event.what)) {
    begin(steady_now());
  } else if (std::holds_alternative<event::WorkerEnded>(event.what)) {
    note_last_step();
  } else if (const auto* restart = std::get_if<event::RestartDecided>(&event.what)) {
    if (!restart->replaced.empty()) {
      tell_rolled_back();
    }
  } else if (std::holds_alternative<event::Mended>(event.what)) {
    last_step_ = steady_now();  // earlier work has been counted
  } else if (std::holds_alternative<event::WorkersSignalled>(event.what) ||
             std::holds_alternative<event::JobEnded>(event.what)) {
    timer_.cancel();
  }
}

void StepWatch::begin(TimePoint now) {
  begun_ = now;
  if (!has_stepped_) {
    look_later();
  }
}

void StepWatch::look_later() {
  timer_.expires_after(
      std::clamp<Duration>((steady_now() - begun_) / kLooksPerStart, kLookMin, kLookMax));
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) {
      look();
    }
  });
}

void StepWatch::look() {
  const auto steps = channel_.steps();
  const auto found = std::ranges::find_if(steps, [](const auto& step) { return step.has_value(); });
  if (found == steps.end()) {
    look_later();
    return;
  }
  has_stepped_ = true;
  events_.tell(event::FirstStep{static_cast<int>(found - steps.begin()), **found});
}

// The page of a worker is gone when its replacement starts.
void StepWatch::note_last_step() {
  for (const channel::Progress& one : channel_.progress()) {
    if (one.step) {
      last_step_ = std::max(last_step_.value_or(one.time), one.time);
    }
  }
}

void StepWatch::tell_rolled_back() {
  note_last_step();
  if (last_step_) {
    events_.tell(
        event::RolledBack{std::chrono::duration<double>(steady_now() - *last_step_).count()});
  }
}

}  // namespace muster
