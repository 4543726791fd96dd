// SPDX-License-Identifier: Apache-2.0
#include "process/tree/live_mpi.hpp"

#include "process/tree/live_environment.hpp"

#include <algorithm>
#include <cstdint>
#include <span>

namespace muster {
namespace {

// PyTorch may link the library without calling it, so a loaded library alone proves nothing.
bool is_initialized(const ReadMemory& read, std::uint64_t base) {
  const auto address = address_of_symbol(read, base, "ompi_mpi_state");
  std::int32_t state = 0;  // 0 until MPI_Init
  return address && read(*address, std::as_writable_bytes(std::span(&state, 1))) && state != 0;
}

}  // namespace

bool has_called_mpi_init(const ReadMemory& read, std::string_view maps) {
  return std::ranges::any_of(loaded_files(maps), [&](const LoadedFile& file) {
    const auto name = std::string_view(file.path).substr(file.path.rfind('/') + 1);
    return name.starts_with("libmpi.so") && is_initialized(read, file.base);
  });
}

bool has_called_mpi_init(pid_t pid) {
  return has_called_mpi_init(memory_of(pid), maps_of(pid));
}

}  // namespace muster
