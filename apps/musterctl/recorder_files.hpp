// SPDX-License-Identifier: Apache-2.0
// Flight recorders of muster's collective library, found in folders and in processes. Stateless.
#pragma once

#include "collective/recorder/flight_recorder.hpp"

#include <string>
#include <vector>

namespace muster {

// Of each folder or pid (with all processes below it); each recorder once.
[[nodiscard]] std::vector<collective::FlightLog> read_recorders(
    const std::vector<std::string>& places);

}  // namespace muster
