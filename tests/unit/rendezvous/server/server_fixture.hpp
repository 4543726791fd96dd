// SPDX-License-Identifier: Apache-2.0
// A ServerCore with sessions that have sent their greeting and read all output.
#pragma once

#include "rendezvous/server/server_core.hpp"

#include <string>
#include <string_view>

namespace muster::testing {

constexpr std::string_view kGreeting("\x00\xCE\xF7\x85\x3C", 5);

struct ServerFixture {
  explicit ServerFixture(const ServerLimits& limits = {}) : core(limits) {}

  ServerCore core;

  SessionId greeted() {
    const SessionId id = core.open();
    core.receive(id, kGreeting);
    return id;
  }

  // All output, as if a client had read it.
  std::string drain(SessionId id) {
    std::string out;
    while (!core.output(id).empty()) {
      const std::string_view bytes = core.output(id);
      out += bytes;
      core.sent(id, bytes.size());
    }
    return out;
  }
};

}  // namespace muster::testing
