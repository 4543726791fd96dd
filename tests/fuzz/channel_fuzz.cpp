// SPDX-License-Identifier: Apache-2.0
// Everything that a worker writes is a sequence of frames or is refused with a reason. The result
// is the same for every split, stays within the limits, and does not affect another worker. The
// same holds for bytes from an agent.
#include "base/check.hpp"
#include "worker/channel/channel_core.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace muster;
using namespace muster::channel;

constexpr ConnectionId kLiar = 1;
constexpr ConnectionId kOther = 2;

struct Outcome {
  Effects effects;
  std::vector<Progress> progress;
  std::string unsent;
  bool operator==(const Outcome&) const = default;
};

Outcome feed(std::string_view bytes, std::size_t piece) {
  ChannelCore core;
  Outcome out;
  Effects quiet;
  Round round;
  round.epoch = 3;
  round.local_world_size = 2;
  core.begin_round(TimePoint{}, round, quiet);
  core.opened(kLiar, 0, quiet);
  core.opened(kOther, 1, quiet);
  while (!bytes.empty()) {
    core.received(TimePoint{}, kLiar, bytes.substr(0, piece), out.effects);
    bytes.remove_prefix(std::min(piece, bytes.size()));
    MUSTER_CHECK(core.unsent(kLiar).size() <= kUnreadBytesMax);
  }
  out.progress = core.progress();
  out.unsent = core.unsent(kLiar);
  MUSTER_CHECK(core.unsent(kOther).empty());
  MUSTER_CHECK(out.progress[1] == Progress{});
  // The other worker is still received.
  Effects other;
  core.received(TimePoint{}, kOther, encode(WorkerFrame(Unhealthy{"x"})), other);
  MUSTER_CHECK((other == Effects{Said{1, 1, Unhealthy{"x"}}}));
  return out;
}

template <class Frame>
void try_line(const std::string& line, Result<std::optional<Frame>> (*decode)(std::string_view)) {
  const auto frame = decode(line);
  MUSTER_CHECK(frame || !frame.error().message.empty());
  if (frame && *frame) {
    const std::string text = encode(**frame);
    const auto again = decode(std::string_view(text).substr(0, text.size() - 1));
    // Escapes may make it longer than the limit for frames.
    MUSTER_CHECK(text.size() > kFrameBytesMax || (again && *again == *frame));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Outcome whole = feed(bytes, std::max<std::size_t>(size, 1));
  MUSTER_CHECK(feed(bytes, 1) == whole);
  MUSTER_CHECK(feed(bytes, 7) == whole);
  LineReader lines;
  lines.feed(bytes);
  for (auto line = lines.next(); line && *line; line = lines.next()) {
    try_line<WorkerFrame>(**line, decode_worker_frame);
    try_line<AgentFrame>(**line, decode_agent_frame);
  }
  return 0;
}
