// SPDX-License-Identifier: Apache-2.0
#include "agent/watch/requeue.hpp"

#include "base/printable.hpp"
#include "base/text.hpp"

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <fmt/core.h>

#include <utility>

namespace muster {
namespace {

constexpr std::size_t kPrintedMax = 2000;

// Slurm would also requeue a job that a user has cancelled, so the script first checks the job's
// state. Its last word is "requeued" on success.
constexpr const char* kScript = R"(job=$(scontrol show job -o "$1") || exit
case $job in
  *' JobState=RUNNING '*) scontrol requeue "$1" && echo requeued ;;
  *) echo 'Slurm is already ending the job' ;;
esac)";

}  // namespace

void Requeue::run(std::function<void()> done) {
  done_ = std::move(done);
  const std::string job = environ_.get("SLURM_JOB_ID").value_or("");
  if (job.empty()) {
    refuse("SLURM_JOB_ID is not set, so this is not a Slurm job");
    return;
  }
  const HelperSpec spec{.argv = {"/bin/sh", "-c", kScript, "muster", job},
                        .environment = environ_.to_block(),
                        .with_errors = true,
                        .timeout = kRequeueTimeout,
                        .bytes_max = kPrintedMax};
  auto started = HelperProcess::start(loop_, spec, [this, job](const std::string& printed) {
    const std::string text(trim(printed));
    if (!text.ends_with("requeued")) {
      refuse(text.empty() ? "scontrol did not respond" : printable(text, kPrintedMax));
      return;
    }
    events_.say(LogLevel::warning, fmt::format("asked Slurm to requeue job {}", job));
    asio::post(loop_, std::exchange(done_, nullptr));
  });
  if (!started) {
    refuse("cannot run scontrol: " + started.error().message);
    return;
  }
  scontrol_ = std::move(*started);
}

void Requeue::refuse(const std::string& why) {
  events_.say(LogLevel::warning,
              "--on-preempt=requeue: the job is not requeued: " + why +
                  ". The exit code is 75, so a script can submit it again");
  asio::post(loop_, std::exchange(done_, nullptr));
}

}  // namespace muster
