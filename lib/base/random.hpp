// SPDX-License-Identifier: Apache-2.0
// Random bytes of the kernel, for keys and names. Stateless; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace muster {

// By getrandom(2), else from /dev/urandom: a sandbox may refuse either. False if both fail.
[[nodiscard]] bool fill_random(std::span<std::byte> out);

// Twice as many hexadecimal digits. Aborts where the kernel has no random bytes for us.
[[nodiscard]] std::string random_hex(std::size_t bytes);

}  // namespace muster
