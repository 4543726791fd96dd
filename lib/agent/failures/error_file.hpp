// SPDX-License-Identifier: Apache-2.0
// Failures as JSON: parses the file that torch.distributed.elastic's `record` wrote to a worker's
// $TORCHELASTIC_ERROR_FILE, writes muster's error files in the same format, and writes the whole
// report. Pure text to text; tolerates any input from a worker.
#pragma once

#include "agent/failures/job_result.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace muster {

// A longer file is not an error file.
inline constexpr std::size_t kErrorFileBytesMax = std::size_t{1} << 20;

// None if the text is not an error file: it is empty, truncated, too long, not JSON, or has an
// unexpected structure.
[[nodiscard]] std::optional<ErrorRecord> parse_error_file(std::string_view text);

// The text of a worker's error file with the worker's exit code added, as torchrun passes it to its
// own caller. Unchanged if the format has no field for the code.
[[nodiscard]] std::string with_error_code(std::string_view text, int code);

// Makes an error file in the same format for a failure that has none.
[[nodiscard]] std::string make_error_file(const WorkerFailure& failure,
                                          const std::string& traceback);

// The data that a failure's node sends to the other nodes, so that all of them print the same
// report.
struct Evidence {
  WorkerFailure failure;  // each text is cut to kEvidenceTextBytesMax
  std::string program;
  std::string logs;  // directory on that node; empty if no logs are kept
  int restarts = 0;  // restarts of the job before this failure
};

inline constexpr std::size_t kEvidenceTextBytesMax = 8192;

// Keeps only the ends of long texts, because the report shows only a few lines of them.
[[nodiscard]] std::string evidence_text(const Evidence& evidence);

// None if the text was not written by evidence_text.
[[nodiscard]] std::optional<Evidence> parse_evidence(std::string_view text);

struct ReportSite;

// report.json: all data of the report on stderr, plus data that did not fit there.
[[nodiscard]] std::string report_json(const JobResult& result, const ReportSite& site);

}  // namespace muster
