// SPDX-License-Identifier: Apache-2.0
// Messages that turn a process into a worker: to the zygote, which forks a worker, and to a spare
// worker. A text in an unnamed file describes the worker, because an environment may be larger than
// a message. Functions; any thread.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "process/start/spawn.hpp"
#include "process/values/process_spec.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// The number of arguments, the CPUs and memory nodes as lists, the arguments, and the environment.
// Each item is terminated by a NUL. Pure.
[[nodiscard]] std::string encode_worker(const ProcessSpec& spec);

// Like encode_worker, without arguments, for a process that was started as `before`. The
// environment contains only the variables that change; a name without "=" is a variable to remove.
// Pure.
[[nodiscard]] std::string encode_change(const ProcessSpec& before, const ProcessSpec& after);

// Error: system.
[[nodiscard]] Result<UniqueFd> text_file(const std::string& text);

// The text and the worker's three streams. Streams that are -1 are ours.
[[nodiscard]] std::vector<int> files_of(const UniqueFd& text, const ChildStreams& streams);

// Sends one message with descriptors over a Unix socket, without blocking. False after an error.
[[nodiscard]] bool send_files(int socket, std::string_view text, std::span<const int> files);

}  // namespace muster
