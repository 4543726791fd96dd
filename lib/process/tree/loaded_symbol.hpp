// SPDX-License-Identifier: Apache-2.0
// Finds the address of a variable in a loaded program or library through its symbol table (64-bit
// ELF, DT_GNU_HASH). The memory belongs to another process, so its contents are untrusted: every
// read may fail, and all loops are bounded. Used by live_environment. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

namespace muster {

// Returns false if the range cannot be read completely.
using ReadMemory = std::function<bool(std::uint64_t address, std::span<std::byte> to)>;

// `base`: the address of the file's first page. None if the file does not define the symbol.
[[nodiscard]] std::optional<std::uint64_t> address_of_symbol(const ReadMemory& read,
                                                             std::uint64_t base,
                                                             std::string_view name);

}  // namespace muster
