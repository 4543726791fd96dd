// SPDX-License-Identifier: Apache-2.0
// Any bytes are used as the memory of a process. Looking for a symbol in them, and following a list
// of variables, terminates and reads nothing else. The first two bytes set the offset of the file.
#include "base/check.hpp"
#include "process/tree/live_environment.hpp"
#include "process/tree/loaded_symbol.hpp"

#include <cstdint>
#include <cstring>

namespace {

constexpr std::uint64_t kBase = 0x10000;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::size_t reads = 0;
  const muster::ReadMemory read = [&](std::uint64_t address, std::span<std::byte> to) {
    ++reads;
    const bool inside =
        address >= kBase && address - kBase <= size && to.size() <= size - (address - kBase);
    if (inside) {
      std::memcpy(to.data(), data + (address - kBase), to.size());
    }
    return inside;
  };
  const std::uint64_t start = size < 2 ? 0 : data[0] + 256ULL * data[1];
  static_cast<void>(muster::address_of_symbol(read, kBase + start, "environ"));
  static_cast<void>(muster::address_of_symbol(read, kBase, "environ"));
  static_cast<void>(muster::variables_at(read, kBase + start, {"MASTER_PORT"}));
  static_cast<void>(muster::bases_of_environ(
      std::string_view(reinterpret_cast<const char*>(data), size), "/bin/x"));
  MUSTER_CHECK(reads < 100'000);
  return 0;
}
