// SPDX-License-Identifier: Apache-2.0
// Reads flight recorders of muster's collective library from directories and processes. Stateless.
#pragma once

#include "collective/recorder/flight_recorder.hpp"

#include <string>
#include <vector>

namespace muster {

// Reads each directory, or each process tree (given its pid). Returns each recorder once.
[[nodiscard]] std::vector<collective::FlightLog> read_recorders(
    const std::vector<std::string>& places);

}  // namespace muster
