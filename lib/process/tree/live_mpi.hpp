// SPDX-License-Identifier: Apache-2.0
// Detects whether a process has called MPI_Init, from the state that Open MPI keeps in its library.
// MPICH does not expose its state, so it cannot be detected. Used by the agent; the memory reader
// is a parameter so that tests can replace it.
#pragma once

#include "process/tree/loaded_symbol.hpp"

#include <string_view>

#include <sys/types.h>

namespace muster {

[[nodiscard]] bool has_called_mpi_init(pid_t pid);

// `maps`: the text of /proc/<pid>/maps. Pure.
[[nodiscard]] bool has_called_mpi_init(const ReadMemory& read, std::string_view maps);

}  // namespace muster
