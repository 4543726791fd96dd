// SPDX-License-Identifier: Apache-2.0
// JSON fragments that report.json and events.jsonl have in common. Used by the two files in this
// directory that write them. Pure.
#pragma once

#include "agent/failures/job_result.hpp"

#include <nlohmann/json.hpp>

namespace muster {

using Json = nlohmann::ordered_json;

// A failed worker and the evidence of why it failed.
[[nodiscard]] Json failure_json(const WorkerFailure& failure);

// How the job ended. Lists failures on this node by rank only, because each of them has a separate
// event. In a multi-node job, includes the evidence from the message that ended the job.
[[nodiscard]] Json end_json(const JobResult& result);

}  // namespace muster
