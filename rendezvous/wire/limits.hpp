// SPDX-License-Identifier: Apache-2.0
// The limits of the store's wire format, and the reasons for them. The first three are the limits
// of PyTorch's own server, so that every valid client works here. A length equal to the limit is
// allowed. rendezvous/PROTOCOL.md describes the reaction to each limit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster {

// Limit on the size of a key, including the leading '/' of user keys.
inline constexpr std::uint64_t kMaxKeyBytes = 8192;

// Limit on the size of a value in a request. APPEND may grow a stored value beyond this limit.
inline constexpr std::uint64_t kMaxValueBytes = 8ULL * 1024 * 1024;

// Limit on the number of keys in one CHECK, WAIT or MULTI_GET, and of pairs in one MULTI_SET.
inline constexpr std::uint64_t kMaxKeyCount = 131072;

// Limit on the size of a complete request. Without it, a MULTI_SET could announce 1 TiB within the
// limits above.
inline constexpr std::uint64_t kMaxRequestBytes = 64ULL * 1024 * 1024;

// The limits of one server. They are not constants, so that tests can use small values.
struct ServerLimits {
  // Limit on the memory for keys, values, queues and waiters. A request that would exceed it is
  // refused.
  std::uint64_t stored_bytes = 1ULL << 30;

  // Limit on the size of the reply to one request. Replies to MULTI_GET and LIST_KEYS can be large.
  std::uint64_t reply_bytes = 128ULL * 1024 * 1024;

  // Limit on the unsent replies of one session. Above it, further requests stay in the socket, so a
  // session that does not read its replies is not served.
  std::uint64_t unsent_high_water = 256ULL * 1024;

  // Limit on the partial requests and unsent replies of all sessions. Above it, the session that
  // holds the most is closed.
  std::uint64_t held_bytes = 256ULL * 1024 * 1024;

  // Limit on the number of keys that one session may wait for at a time.
  std::uint64_t awaited_keys = kMaxKeyCount;

  // Limit on the number of watches of one session. A change of a key notifies all watchers in one
  // turn.
  std::uint64_t watches = 1024;

  // Limit on the work in one turn, in keys and waits. The server continues the rest after it has
  // served other sessions. A unit takes less than a microsecond.
  std::uint64_t turn_units = 1024;
};

}  // namespace muster
