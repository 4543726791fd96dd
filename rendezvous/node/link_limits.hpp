// SPDX-License-Identifier: Apache-2.0
// LinkLimits: how much LinkSockets takes from others, and how long it waits (PROTOCOL.md,
// "Limits"). Value.
#pragma once

#include "base/time.hpp"
#include "rendezvous/wire/round_limits.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace muster {

struct LinkLimits {
  std::size_t strangers = 4096;  // accepted, no Hello yet; and a quarter of the descriptors at most
  Duration hello = std::chrono::seconds(5);  // for preamble and Hello
  Duration linger = std::chrono::seconds(2);
  Duration refused_linger = std::chrono::milliseconds(500);
  std::size_t handshakes = 64;  // of TLS at one time, by those who connected to us; others wait
  Duration handshake = std::chrono::seconds(2);
  Duration user_timeout = std::chrono::seconds(9);
  std::size_t unsent_bytes = 64UL * 1024 * 1024;  // of one link: it does not read
  std::size_t held_bytes = 256UL * 1024 * 1024;   // half frames of all links together
  std::uint32_t list_body = kMaxListsBody;        // of Propose and Rounds
};

}  // namespace muster
