// SPDX-License-Identifier: Apache-2.0
// Random bytes from the kernel, for keys and names. Stateless; thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace muster {

// Uses getrandom(2), or /dev/urandom if that fails, because a sandbox may block either. False if
// both fail.
[[nodiscard]] bool fill_random(std::span<std::byte> out);

// Returns 2 * `bytes` hexadecimal digits. Aborts if the kernel provides no random bytes.
[[nodiscard]] std::string random_hex(std::size_t bytes);

}  // namespace muster
