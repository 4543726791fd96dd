// SPDX-License-Identifier: Apache-2.0
// Every limit of the store's wire format, with the reason for its size. The first three are those
// of PyTorch's own server, so that what works there works here; a length that is exactly the limit
// is allowed. What happens at a limit is in rendezvous/PROTOCOL.md.
#pragma once

#include <cstddef>
#include <cstdint>

namespace muster {

// One key, the leading '/' of user keys counted.
inline constexpr std::uint64_t kMaxKeyBytes = 8192;

// One value in a request. APPEND may grow a stored value beyond it.
inline constexpr std::uint64_t kMaxValueBytes = 8ULL * 1024 * 1024;

// Keys of one CHECK, WAIT or MULTI_GET; pairs of one MULTI_SET.
inline constexpr std::uint64_t kMaxKeyCount = 131072;

// One whole request: without it a MULTI_SET could announce 1 TiB within the limits above.
inline constexpr std::uint64_t kMaxRequestBytes = 64ULL * 1024 * 1024;

// The limits of one server. Not constants, so that tests reach them quickly.
struct ServerLimits {
  // Keys, values, queues and waiters together. A request that would pass it is refused.
  std::uint64_t stored_bytes = 1ULL << 30;

  // The reply to one request (MULTI_GET and LIST_KEYS can be large).
  std::uint64_t reply_bytes = 128ULL * 1024 * 1024;

  // Unsent replies of one session above which its requests are left in the socket, so that a
  // session that does not read is not served either.
  std::uint64_t unsent_high_water = 256ULL * 1024;

  // What all sessions together may leave with us: half requests and unsent replies. Above it the
  // session that holds the most is closed.
  std::uint64_t held_bytes = 256ULL * 1024 * 1024;

  // Keys that one session may be waiting for at a time.
  std::uint64_t awaited_keys = kMaxKeyCount;
};

}  // namespace muster
