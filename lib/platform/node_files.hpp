// SPDX-License-Identifier: Apache-2.0
// The node lists of PBS, Torque, Cobalt, OAR, LSF and SGE. They are in files, or in variables that
// repeat a name for each slot. Pure except for reading the file that the variable names.
#pragma once

#include "platform/facts.hpp"

#include <optional>
#include <string>
#include <vector>

namespace muster {

using SaidNames = std::optional<Said<std::vector<std::string>>>;

// Lists each node once, in order of first appearance. None if this process is not in such a job, or
// if the file does not exist here.
[[nodiscard]] SaidNames names_of_pbs(const PlatformFacts& facts);     // PBS_NODEFILE
[[nodiscard]] SaidNames names_of_cobalt(const PlatformFacts& facts);  // COBALT_NODEFILE
[[nodiscard]] SaidNames names_of_oar(const PlatformFacts& facts);     // OAR_NODEFILE
[[nodiscard]] SaidNames names_of_lsf(const PlatformFacts& facts);     // LSB_MCPU_HOSTS, LSB_HOSTS
[[nodiscard]] SaidNames names_of_sge(const PlatformFacts& facts);     // PE_HOSTFILE

}  // namespace muster
