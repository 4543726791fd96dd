// SPDX-License-Identifier: Apache-2.0
// The pieces of JSON that report.json and events.jsonl have in common. For the two files of this
// room that write them. Pure.
#pragma once

#include "agent/failures/job_result.hpp"

#include <nlohmann/json.hpp>

namespace muster {

using Json = nlohmann::ordered_json;

// A worker that failed, with what it left.
[[nodiscard]] Json failure_json(const WorkerFailure& failure);

// How the job ended, with its workers' failures by rank only: those of this node are events of
// their own. Where the job had many nodes, the message that ended it carried
// the evidence, and it is here.
[[nodiscard]] Json end_json(const JobResult& result);

}  // namespace muster
