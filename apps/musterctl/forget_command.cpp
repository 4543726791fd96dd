// SPDX-License-Identifier: Apache-2.0
// forget: makes the leading launcher stop waiting for a node that it cannot prove to be dead.
#include "base/logger.hpp"
#include "base/printable.hpp"
#include "choose_job.hpp"
#include "commands.hpp"
#include "status/forget_path.hpp"

#include <fmt/core.h>

#include <string>
#include <utility>

namespace muster {

Result<int> run_forget(const ControlOptions& options) {
  const auto job = find_job(options);
  MUSTER_RETURN_IF_ERROR(job);
  const std::string node = printable(options.node);
  auto refused = job->source.get(forget_path(options.node), options.timeout);
  MUSTER_RETURN_IF_ERROR(refused);
  if (!refused->empty()) {
    return failure(Errc::not_possible, fmt::format("cannot forget {}: {}", node, *refused));
  }
  print(fmt::format("{}: declared dead; the job no longer waits for it\n", node));
  log_warning(
      fmt::format("if a process of this job is still running on {}, two copies of the job are "
                  "running and may write the same files. Stop that process",
                  node));
  return 0;
}

}  // namespace muster
