// SPDX-License-Identifier: Apache-2.0
// Random bytes from the kernel, for keys and names. Stateless; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace muster {

// Uses getrandom(2), or else /dev/urandom, because a sandbox may block either. False if both fail.
[[nodiscard]] bool fill_random(std::span<std::byte> out);

// Returns twice as many hexadecimal digits. Aborts if the kernel provides no random bytes.
[[nodiscard]] std::string random_hex(std::size_t bytes);

}  // namespace muster
