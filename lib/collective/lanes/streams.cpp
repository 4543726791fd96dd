// SPDX-License-Identifier: Apache-2.0
#include "collective/lanes/streams.hpp"

#include <algorithm>
#include <utility>

namespace muster::collective {

Streams::Streams(Lanes& lanes, std::vector<int> members)
    : lanes_(lanes),
      members_(std::move(members)),
      self_(static_cast<std::size_t>(std::ranges::find(members_, lanes.rank()) - members_.begin())),
      send_marks_(members_.size()),
      receive_marks_(members_.size()) {}

void Streams::send(std::size_t member, const void* data, std::size_t bytes) {
  if (bytes > 0) {
    send_marks_[member] = lanes_.post_send(members_[member], data, bytes);
  }
}

void Streams::receive(std::size_t member, void* data, std::size_t bytes) {
  if (bytes > 0) {
    receive_marks_[member] = lanes_.post_recv(members_[member], data, bytes);
  }
}

bool Streams::is_open(std::size_t member) const {
  return !sent(member, send_marks_[member]) || !received(member, receive_marks_[member]);
}

int Streams::missing() const {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (is_open(i)) {
      return members_[i];
    }
  }
  return -1;
}

Result<void> Streams::drain(const Step& step) {
  return until(step, [this] { return missing() < 0; });
}

}  // namespace muster::collective
