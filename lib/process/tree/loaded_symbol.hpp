// SPDX-License-Identifier: Apache-2.0
// Where a program or library that is loaded in memory has a variable that it defines, by its own
// table of symbols (ELF, 64 bits, DT_GNU_HASH). The memory is another process's, so nothing in it
// is believed: each read may fail, and all loops have limits. Used by live_environment. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

namespace muster {

// False where not all of it can be read.
using ReadMemory = std::function<bool(std::uint64_t address, std::span<std::byte> to)>;

// `base`: where the first page of its file lies. None where it does not define it.
[[nodiscard]] std::optional<std::uint64_t> address_of_symbol(const ReadMemory& read,
                                                             std::uint64_t base,
                                                             std::string_view name);

}  // namespace muster
