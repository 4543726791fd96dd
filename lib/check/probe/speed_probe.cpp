// SPDX-License-Identifier: Apache-2.0
#include "check/probe/speed_probe.hpp"

#include "base/clock.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include <sys/mman.h>

namespace muster::check {
namespace {

constexpr std::uint64_t kStepsInPiece = 500'000;
constexpr int kPiecesMin = 3;

// Larger than the caches of most CPUs.
constexpr std::size_t kCopyBytes = std::size_t{64} << 20;
constexpr std::size_t kCopyPieceBytes = std::size_t{16} << 20;

volatile std::uint64_t computed = 0;  // keeps the compiler from removing the computation

// xorshift64: each step depends on the last one.
void compute(std::uint64_t steps) {
  std::uint64_t state = 88172645463325252ULL;
  for (std::uint64_t i = 0; i < steps; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
  }
  computed = state;
}

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// The highest rate of several pieces, each of which does `amount`.
template <class Piece>
double best_rate(double amount, Duration limit, const Piece& piece) {
  const TimePoint end = steady_now() + limit;
  double best = 0;
  for (int i = 0; i < kPiecesMin || steady_now() < end; ++i) {
    const Duration before = thread_cpu_time();
    piece();
    const double used = seconds(thread_cpu_time() - before);
    best = used > 0 ? std::max(best, amount / used) : best;
  }
  return best;
}

}  // namespace

double measure_cpu(Duration limit) {
  return best_rate(kStepsInPiece, limit, [] { compute(kStepsInPiece); });
}

Result<double> measure_memory(Duration limit) {
  void* const mapped =
      ::mmap(nullptr, 2 * kCopyBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    return std::unexpected(system_error("cannot allocate memory", errno));
  }
  auto* const bytes = static_cast<unsigned char*>(mapped);
  std::memset(bytes, 1, 2 * kCopyBytes);
  std::size_t at = 0;
  const double rate = best_rate(2.0 * kCopyPieceBytes, limit, [&] {
    std::memcpy(bytes + kCopyBytes + at, bytes + at, kCopyPieceBytes);
    at = (at + kCopyPieceBytes) % kCopyBytes;
  });
  ::munmap(mapped, 2 * kCopyBytes);
  return rate;
}

}  // namespace muster::check
