// SPDX-License-Identifier: Apache-2.0
#include "base/random.hpp"

#include "base/check.hpp"
#include "base/fd.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <vector>

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

namespace muster {
namespace {

// Calls `read` until the span is full or `read` fails.
template <class Read>
bool fill_by(std::span<std::byte> out, Read read) {
  while (!out.empty()) {
    const ssize_t count = read(out.data(), out.size());
    if (count == 0 || (count < 0 && errno != EINTR)) {
      return false;
    }
    out = out.subspan(count > 0 ? static_cast<std::size_t>(count) : 0);
  }
  return true;
}

}  // namespace

bool fill_random(std::span<std::byte> out) {
  if (fill_by(out, [](void* at, std::size_t size) { return ::getrandom(at, size, 0); })) {
    return true;
  }
  const UniqueFd source(::open("/dev/urandom", O_RDONLY | O_CLOEXEC));
  return source &&
         fill_by(out, [&](void* at, std::size_t size) { return ::read(source.get(), at, size); });
}

std::string random_hex(std::size_t bytes) {
  std::vector<std::byte> random(bytes);
  MUSTER_CHECK(fill_random(random));
  std::string out;
  for (const std::byte byte : random) {
    out += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  }
  return out;
}

}  // namespace muster
