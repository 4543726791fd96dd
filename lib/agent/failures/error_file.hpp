// SPDX-License-Identifier: Apache-2.0
// The JSON of failures: reads what a worker's torch.distributed.elastic `record` left in its
// $TORCHELASTIC_ERROR_FILE, writes our own in the same form, and the whole report. Pure text to
// text; whatever a worker wrote is tolerated.
#pragma once

#include "agent/failures/job_result.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace muster {

// What is longer is no error file.
inline constexpr std::size_t kErrorFileBytesMax = std::size_t{1} << 20;

// None where the text is not such a file: empty, torn, too long, not JSON, JSON of another shape.
[[nodiscard]] std::optional<ErrorRecord> parse_error_file(std::string_view text);

// The text of a worker's error file with the worker's exit code in it, as torchrun hands it to its
// own caller; unchanged where it has no place for the code.
[[nodiscard]] std::string with_error_code(std::string_view text, int code);

// The same form for a failure without an error file.
[[nodiscard]] std::string make_error_file(const WorkerFailure& failure,
                                          const std::string& traceback);

// What the node of a failure tells the others of it, for a report that is the same everywhere.
struct Evidence {
  WorkerFailure failure;  // texts cut to kEvidenceTextBytesMax each
  std::string program;
  std::string logs;  // folder on that node; empty where it keeps none
  int restarts = 0;  // of the job, before
};

inline constexpr std::size_t kEvidenceTextBytesMax = 8192;

// The ends of long texts: the report shows a few lines of them.
[[nodiscard]] std::string evidence_text(const Evidence& evidence);

// None where the text is none of ours.
[[nodiscard]] std::optional<Evidence> parse_evidence(std::string_view text);

struct ReportSite;

// report.json: everything that the report on stderr says, and what it had no room for.
[[nodiscard]] std::string report_json(const JobResult& result, const ReportSite& site);

}  // namespace muster
