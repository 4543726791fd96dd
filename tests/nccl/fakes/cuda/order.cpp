// SPDX-License-Identifier: Apache-2.0
#include "nccl/fakes/cuda/order.hpp"

#include <algorithm>

namespace muster::fake {
namespace {

void merge(Clock& into, const Clock& from) {
  into.resize(std::max(into.size(), from.size()), 0);
  for (std::size_t i = 0; i < from.size(); ++i) {
    into[i] = std::max(into[i], from[i]);
  }
}

}  // namespace

int Order::add_stream() {
  streams_.emplace_back();
  return static_cast<int>(streams_.size()) - 1;
}

void Order::enqueue(int stream) {
  Clock& clock = streams_[static_cast<std::size_t>(stream)];
  merge(clock, host_);
  clock.resize(std::max(clock.size(), static_cast<std::size_t>(stream) + 1), 0);
  ++clock[static_cast<std::size_t>(stream)];
}

void Order::stream_waits(int stream, const Clock& clock) {
  merge(streams_[static_cast<std::size_t>(stream)], clock);
}

void Order::host_knows(const Clock& clock) {
  merge(host_, clock);
  forget_known();
}

bool Order::overlap(const Span& a, const Span& b) {
  return a.begin < b.end && b.begin < a.end;
}

bool Order::known(const Clock& clock, const Use& use) {
  const auto stream = static_cast<std::size_t>(use.stream);
  return stream < clock.size() && clock[stream] >= use.count;
}

void Order::forget_known() {
  std::erase_if(uses_, [this](const Use& use) { return known(host_, use); });
}

std::optional<std::string> Order::touch(int stream, Span span, const std::string& what) {
  const Clock& clock = streams_[static_cast<std::size_t>(stream)];
  for (const Use& use : uses_) {
    const bool conflict = overlap(use.span, span) && (use.span.write || span.write);
    if (conflict && !known(clock, use)) {
      return what + (span.write ? " writes" : " reads") + " a buffer that " + use.what +
             (use.span.write ? " writes" : " reads") +
             ", and no event orders the two: reuse before the event";
    }
  }
  uses_.push_back({span, stream, clock[static_cast<std::size_t>(stream)], what});
  return std::nullopt;
}

std::optional<std::string> Order::release(Span span) {
  for (const Use& use : uses_) {
    if (overlap(use.span, span) && !known(host_, use)) {
      return "memory is freed that " + use.what + " may still use";
    }
  }
  return std::nullopt;
}

}  // namespace muster::fake
