// SPDX-License-Identifier: Apache-2.0
// Failures as JSON: parses the file that torch.distributed.elastic's `record` wrote to a worker's
// $TORCHELASTIC_ERROR_FILE, writes muster's error files in the same format, and writes the whole
// report. Pure text to text; tolerates any input from a worker.
#pragma once

#include "agent/failures/report.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace muster {

// Longer files are not parsed.
inline constexpr std::size_t kErrorFileBytesMax = std::size_t{1} << 20;

// None if the text is not an error file: it is empty, truncated, too long, not JSON, or has an
// unexpected structure.
[[nodiscard]] std::optional<ErrorRecord> parse_error_file(std::string_view text);

// The text of a worker's error file with the worker's exit code added, as torchrun passes it to its
// own caller. Unchanged if the format has no field for the code.
[[nodiscard]] std::string with_error_code(std::string_view text, int code);

// Makes an error file in the format of `record` for a failure without an error file.
[[nodiscard]] std::string make_error_file(const WorkerFailure& failure,
                                          const std::string& traceback);

inline constexpr std::size_t kEvidenceTextBytesMax = 8192;

// The text that the node with the failure sends to the other nodes, so that all nodes print the
// same report. It contains `root`, `program`, `logs` and `attempt`. Long texts are shortened to
// their ends (kEvidenceTextBytesMax), because the report shows only a few lines of each text.
[[nodiscard]] std::string story_text(const FailureStory& story);

// None if the text was not written by story_text.
[[nodiscard]] std::optional<FailureStory> parse_story(std::string_view text);

// report.json: all data from the report on stderr, plus data that does not fit on stderr.
[[nodiscard]] std::string report_json(const JobResult& result, const ReportSite& site);

}  // namespace muster
