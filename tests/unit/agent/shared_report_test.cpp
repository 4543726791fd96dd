// SPDX-License-Identifier: Apache-2.0
// The report of a multi-node job, built from the message that ended it.
#include "agent/failures/error_file.hpp"
#include "agent/failures/report.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <csignal>

using namespace muster;

namespace {

FailureStory sent_story() {
  FailureStory told;
  told.program = "train.py";
  told.logs = "/logs/job_x";
  told.attempt = 2;
  told.root.rank = 5;
  told.root.local_rank = 1;
  told.root.pid = 4711;
  told.root.attempt = 3;
  told.root.wall_seconds = 1795249486.5;
  told.root.status = ExitStatus{false, 7};
  told.root.stderr_tail = "loading\nTraceback (most recent call last):\n  x\nValueError: boom\n";
  return told;
}

JobResult closed() {
  JobResult result;
  result.outcome = Outcome::failed;
  result.max_restarts = 1;
  result.close = Close{};
  Close& close = *result.close;
  close.exit_code = 7;
  close.reason = "all 1 restarts are used up";
  close.root_rank = 5;
  close.root_node = "node3";
  close.root_text = "exited with code 7";
  close.details = story_text(sent_story());
  close.others_count = 2;
  close.others = {{0, "node1", "exited with code 1"}, {2, "node2", "killed by SIGABRT"}};
  return result;
}

constexpr const char* kBlock =
    "muster: train.py: rank 5 exited with code 7\n"
    "  node node3, local rank 1, pid 4711, attempt 2 of 2\n"
    "  all 1 restarts are used up\n"
    "  | Traceback (most recent call last):\n"
    "  |   x\n"
    "  | ValueError: boom\n"
    "  2 other ranks failed after it: 0, 2\n"
    "  logs on node node3: /logs/job_x\n";

}  // namespace

TEST_CASE(
    "shared report: names the first failure of the whole job, on whichever node it occurred") {
  CHECK(render_report(closed(), ReportSite{"node1", "train.py", "/own", false}) == kBlock);
}

TEST_CASE("shared report: identical on every node, byte for byte") {
  JobResult elsewhere = closed();
  elsewhere.nproc = 8;
  elsewhere.attempt = 9;
  elsewhere.stop_signal = SIGINT;
  WorkerFailure own;
  own.status = ExitStatus{true, SIGTERM};
  own.after_stop = true;
  elsewhere.failures = {own};
  CHECK(render_report(elsewhere, ReportSite{"node3", "/abs/train.py", "", false}) == kBlock);
}

TEST_CASE("shared report: processes that a node could not stop precede the common block") {
  JobResult result = closed();
  result.overdue = {1};
  result.survivors = {Survivor{77, 'D', "stuck"}};
  const std::string report = render_report(result, ReportSite{"node1", "train.py", "", false});
  CHECK(report == std::string("muster: warning: killed after the grace period: local rank 1\n"
                              "muster: warning: could not be killed: pid 77 (stuck, state D)\n") +
                      kBlock);
}

TEST_CASE("shared report: without evidence it still contains the failed rank and its exit status") {
  JobResult result = closed();
  result.close->details = GENERATE(std::string(), std::string("{"), std::string("{\"a\": 1}"));
  result.close->others_count = 40;
  CHECK(render_report(result, ReportSite{"node1", "train.py", "", false}) ==
        "muster: train.py: rank 5 exited with code 7\n"
        "  node node3\n"
        "  all 1 restarts are used up\n"
        "  40 other ranks failed after it: 0, 2 and 38 more\n");
  const auto story = story_of(result, ReportSite{});
  REQUIRE(story);
  CHECK(story->root.status.shell_code() == 7);  // the exit code for our own caller
}

TEST_CASE("shared report: at most fifteen lines, however much evidence the message contains") {
  JobResult result = closed();
  FailureStory told = sent_story();
  for (int i = 0; i < 5000; ++i) {
    told.root.stderr_tail += "line \x1b[2J\xff" + std::to_string(i) + "\n";
  }
  told.root.record = ErrorRecord{std::string(100'000, 'm'), std::string(100'000, '\n'), 5.0};
  result.close->details = story_text(told);
  result.close->root_node = "a\nb\x1b";
  result.close->reason = std::string(5000, 'r') + "\n";
  const std::string report = render_report(result, ReportSite{"node1", "train.py", "", false});
  CHECK(std::ranges::count(report, '\n') <= static_cast<long>(kReportLinesMax));
  CHECK(report.find('\x1b') == std::string::npos);
  CHECK(report.find("line [2J") != std::string::npos);
  CHECK(result.close->details.size() < 5 * kEvidenceTextBytesMax);
}

TEST_CASE("shared report: success prints nothing") {
  JobResult result;
  result.close = Close{};
  result.close->succeeded = true;
  CHECK(render_report(result, ReportSite{"node1", "train.py", "", false}).empty());
  CHECK(exit_code_of(result) == 0);
}

TEST_CASE("shared report: a failure story survives encoding and decoding") {
  FailureStory told = sent_story();
  told.root.record = ErrorRecord{"ValueError: boom", "Traceback x", std::nullopt};
  told.root.out_of_memory = true;
  told.root.memory_usage = "limit 512 MiB";
  told.root.lost_child = "process 7 (engine)";
  const auto back = parse_story(story_text(told));
  REQUIRE(back);
  CHECK(back->root == told.root);
  CHECK(back->program == told.program);
  CHECK(back->logs == told.logs);
  CHECK(back->attempt == told.attempt);
  told.root.spawn_error = Error{Errc::system, "exec './x': not found"};
  CHECK(parse_story(story_text(told))->root == told.root);
}

TEST_CASE("shared report: long text is truncated to its last lines, from the start of a line") {
  FailureStory told = sent_story();
  told.root.stderr_tail = "Traceback (most recent call last):\n";
  for (int i = 0; i < 10'000; ++i) {
    told.root.stderr_tail += "frame " + std::to_string(i) + "\n";
  }
  const auto back = parse_story(story_text(told));
  REQUIRE(back);
  const std::string& tail = back->root.stderr_tail;
  CHECK(tail.starts_with("Traceback (most recent call last):\nframe "));
  CHECK(tail.ends_with("frame 9999\n"));
  CHECK(tail.size() < kEvidenceTextBytesMax + 64);
}

TEST_CASE("shared report: the JSON report is the same on every node") {
  const std::string json = report_json(closed(), ReportSite{"node1", "train.py", "/own", false});
  CHECK(json.find("\"exit_code\": 7") != std::string::npos);
  CHECK(json.find("\"node\": \"node3\"") != std::string::npos);
  CHECK(json.find("ValueError: boom") != std::string::npos);
  CHECK(json.find("\"end\": \"killed by SIGABRT\"") != std::string::npos);
  CHECK(json.find("\"verdict\": \"all 1 restarts are used up\"") != std::string::npos);
}
