// SPDX-License-Identifier: Apache-2.0
// LinkLimits: resource limits and timeouts of LinkSockets (PROTOCOL.md, "Limits"). Value.
#pragma once

#include "base/time.hpp"
#include "rendezvous/wire/round_limits.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace muster {

struct LinkLimits {
  // Limit on peers that have sent no Hello; at most 1/4 of the descriptors.
  std::size_t strangers = 4096;
  Duration hello = std::chrono::seconds(5);  // time limit for preamble and Hello
  Duration linger = std::chrono::seconds(2);
  Duration refused_linger = std::chrono::milliseconds(500);
  std::size_t handshakes = 64;  // concurrent incoming TLS handshakes; others wait
  Duration handshake = std::chrono::seconds(2);
  Duration user_timeout = std::chrono::seconds(9);
  std::size_t unsent_bytes = 64UL * 1024 * 1024;  // per link; a link with more is closed
  std::size_t held_bytes = 256UL * 1024 * 1024;   // partial frames of all links together
  std::uint32_t list_body = kMaxListsBody;        // body size of Propose and Rounds
};

}  // namespace muster
