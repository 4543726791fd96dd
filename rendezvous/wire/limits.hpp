// SPDX-License-Identifier: Apache-2.0
// The limits of the store's wire format, with reasons. The first three match PyTorch's own server,
// so that every valid client works here. A length equal to the limit is allowed.
// rendezvous/PROTOCOL.md describes the reaction to each limit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster {

// One key, including the leading '/' of user keys.
inline constexpr std::uint64_t kMaxKeyBytes = 8192;

// One value in a request. APPEND may grow a stored value beyond it.
inline constexpr std::uint64_t kMaxValueBytes = 8ULL * 1024 * 1024;

// Keys in one CHECK, WAIT or MULTI_GET; pairs in one MULTI_SET.
inline constexpr std::uint64_t kMaxKeyCount = 131072;

// One complete request. Otherwise a MULTI_SET could announce 1 TiB within the limits above.
inline constexpr std::uint64_t kMaxRequestBytes = 64ULL * 1024 * 1024;

// The limits of one server. Variables, so that tests can reach them quickly.
struct ServerLimits {
  // Keys, values, queues and waiters together. A request that would exceed it is refused.
  std::uint64_t stored_bytes = 1ULL << 30;

  // The reply to one request (MULTI_GET and LIST_KEYS can be large).
  std::uint64_t reply_bytes = 128ULL * 1024 * 1024;

  // Unsent replies of one session. Above this, its requests stay in the socket, so that a session
  // that does not read is not served.
  std::uint64_t unsent_high_water = 256ULL * 1024;

  // Partial requests and unsent replies of all sessions. Above this, the session that holds the
  // most is closed.
  std::uint64_t held_bytes = 256ULL * 1024 * 1024;

  // Number of keys that one session may wait for at a time.
  std::uint64_t awaited_keys = kMaxKeyCount;
};

}  // namespace muster
