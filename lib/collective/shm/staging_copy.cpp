// SPDX-License-Identifier: Apache-2.0
#include "collective/shm/staging_copy.hpp"

#include "base/clock.hpp"
#include "collective/shm/segment_page.hpp"

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace muster::collective {
namespace {

// Threshold in ns per cache line. A line costs 6 to 10 ns in a nearby cache (below 16 ns if the
// source is in memory), and 36 ns or more in a distant cache (SPEED.md).
constexpr std::int64_t kDearLine = 18;

}  // namespace

void StoreChoice::copied(std::size_t bytes, Duration took) {
  // Streamed copies are not measured, because their time does not depend on where the line is
  // cached.
  if (left_ > 0) {
    --left_;
    return;
  }
  const auto lines = static_cast<std::int64_t>(bytes / kLine);
  if (bytes >= kLeastJudged && took > std::chrono::nanoseconds(kDearLine * lines)) {
    left_ = kStreamedCopies;
  }
}

void StagingCopy::operator()(void* to, const void* from, std::size_t bytes) {
  const bool streams = choice_.streams();
  const TimePoint begin = steady_now();
  if (streams) {
    stream_copy(to, from, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
  choice_.copied(bytes, steady_now() - begin);
}

void stream_copy(void* to, const void* from, std::size_t bytes) {
  std::size_t done = 0;
#if defined(__SSE2__)
  auto* const out = static_cast<__m128i*>(to);
  const auto* const in = static_cast<const __m128i*>(from);
  for (; done + kLine <= bytes; done += kLine) {
    const std::size_t i = done / sizeof(__m128i);
    const __m128i parts[] = {_mm_loadu_si128(in + i),
                             _mm_loadu_si128(in + i + 1),
                             _mm_loadu_si128(in + i + 2),
                             _mm_loadu_si128(in + i + 3)};
    for (std::size_t part = 0; part < 4; ++part) {
      // Write whole lines: a partially filled line may be flushed in parts. `to` is line-aligned,
      // as all slots are; `from` need not be.
      _mm_stream_si128(out + i + part, parts[part]);
    }
  }
  // Streaming stores are not ordered before later stores, not even on x86. Without the fence,
  // other ranks could see the counter that Shm::advance() stores with release before they see the
  // data (Intel SDM, volume 1, 10.4.6.2).
  _mm_sfence();
#endif
  std::memcpy(static_cast<char*>(to) + done, static_cast<const char*>(from) + done, bytes - done);
}

}  // namespace muster::collective
