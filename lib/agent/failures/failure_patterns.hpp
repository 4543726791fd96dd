// SPDX-License-Identifier: Apache-2.0
// The texts that reveal the cause of a failure, as tables: exceptions of Python, and messages of
// PyTorch, CUDA, NCCL, JAX, DeepSpeed, Lightning, transformers, the kernel and shells. Used by
// finding. Pure.
#pragma once

#include "agent/failures/judgement.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace muster {

// `type`: the name of an exception without its module, such as "ImportError".
[[nodiscard]] std::optional<Cause> cause_of_exception(std::string_view type);

// `text`: messages in lower case. The first row of the table that occurs in the text decides.
[[nodiscard]] std::optional<Cause> cause_of_text(std::string_view text);

// The hardware error that a line of the kernel log reports, such as "Xid 79". Empty for Xid codes
// that programs cause, and for other lines.
[[nodiscard]] std::string hardware_error(std::string_view line);

// True if the text, in lower case, reports that a GPU does not answer any more.
[[nodiscard]] bool names_lost_gpu(std::string_view text);

// `frame`: the line of a traceback that names a file. True for files of argparse and similar
// modules, whose exceptions report invalid arguments or an invalid configuration.
[[nodiscard]] bool checks_arguments(std::string_view frame);

// True for a line with which the kernel reports that it killed a process to free memory.
[[nodiscard]] bool is_memory_kill(std::string_view line);

}  // namespace muster
