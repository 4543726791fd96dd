// SPDX-License-Identifier: Apache-2.0
#include "platform/job_ports.hpp"

#include <algorithm>

namespace muster {
namespace {

// A prime that does not divide the range, so candidates of jobs with adjacent hashes do not
// collide.
constexpr std::uint64_t kStep = 977;

// FNV-1a, 64 bits.
std::uint64_t hash(std::string_view text) {
  std::uint64_t out = 14695981039346656037ULL;
  for (const char c : text) {
    out = (out ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  }
  return out;
}

}  // namespace

std::vector<std::uint16_t> job_ports(std::string_view job,
                                     std::uint16_t first,
                                     std::uint16_t count) {
  std::vector<std::uint16_t> ports;
  const std::uint64_t base = hash(job) % count;
  for (int k = 0; k < std::min<int>(kJobPortCandidates, count); ++k) {
    const std::uint64_t step = count > kStep ? kStep : 1;
    ports.push_back(
        static_cast<std::uint16_t>(first + (base + step * static_cast<unsigned>(k)) % count));
  }
  return ports;
}

}  // namespace muster
