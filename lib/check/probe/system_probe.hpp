// SPDX-License-Identifier: Apache-2.0
// What the operating system reports about this node: limits, memory, /dev/shm and the file system
// for logs. Part of measure_node.hpp. No state.
#pragma once

#include "check/figures.hpp"

#include <string>

namespace muster::check {

void read_limits(NodeFigures& out);
void read_memory(NodeFigures& out);
void read_shm(NodeFigures& out);

// Also writes a small file, which is removed again. The folder may not exist yet.
void read_log_folder(const std::string& folder, NodeFigures& out);

}  // namespace muster::check
