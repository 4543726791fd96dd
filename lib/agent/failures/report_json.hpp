// SPDX-License-Identifier: Apache-2.0
// JSON fragments that report.json and events.jsonl share. For the two files in this directory that
// write them. Pure.
#pragma once

#include "agent/failures/job_result.hpp"

#include <nlohmann/json.hpp>

namespace muster {

using Json = nlohmann::ordered_json;

// A failed worker with its evidence.
[[nodiscard]] Json failure_json(const WorkerFailure& failure);

// How the job ended. Lists its workers' failures by rank only, because failures on this node are
// separate events. In a multi-node job the message that ended it carried the evidence, which is
// included.
[[nodiscard]] Json end_json(const JobResult& result);

}  // namespace muster
