// SPDX-License-Identifier: Apache-2.0
#include "agent/failures/report.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <csignal>

using namespace muster;

namespace {

const ReportSite kSite{"node1", "train.py", "/logs/job_x", false};

WorkerFailure failure_of(int rank, int code) {
  WorkerFailure failure;
  failure.local_rank = rank;
  failure.rank = rank;
  failure.pid = 100 + rank;
  failure.status = ExitStatus{false, code};
  return failure;
}

JobResult failed(std::vector<WorkerFailure> failures) {
  JobResult result;
  result.outcome = Outcome::failed;
  result.nproc = 4;
  result.failures = std::move(failures);
  return result;
}

std::size_t lines_in(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

}  // namespace

TEST_CASE("report: success prints nothing") {
  CHECK(render_report(JobResult{}, kSite).empty());
}

TEST_CASE("report: a preempted job says which step each rank saved") {
  JobResult result;
  result.nproc = 3;
  result.preemption = Preemption{.why = "SIGTERM from pid 12", .step = 8, .saved = {}};
  const std::string start = "muster: preempted (SIGTERM from pid 12): ";
  CHECK(render_report(result, kSite) ==
        start + "no rank reported a saved step\n  logs: /logs/job_x\n");
  const ReportSite site{"node1", "train.py", "", false};
  result.preemption->saved = {{0, 8}, {2, 8}};
  CHECK(render_report(result, site) == start + "ranks 0, 2 saved step 8\n");
  result.preemption->saved[1] = 7;
  CHECK(render_report(result, site) == start + "rank 1 saved step 7, ranks 0, 2 saved step 8\n");
  result.preemption->saved[1] = 8;
  CHECK(render_report(result, site) == start + "all ranks saved step 8\n");
  result.preemption->workers_elsewhere = 3;
  CHECK(render_report(result, site) == start + "all ranks on this node saved step 8\n");
  result.outcome = Outcome::interrupted;  // the node left, because the leader was lost
  CHECK(render_report(result, site) == start + "all ranks on this node saved step 8\n");
  result.interrupting_signal = SIGINT;
  CHECK(render_report(result, site) == "muster: interrupted by SIGINT\n");
}

TEST_CASE("report: a failure names rank, end, node, pid, traceback, others and logs") {
  WorkerFailure root = failure_of(1, 7);
  root.stderr_tail =
      "loading data\nTraceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n"
      "    raise ValueError(\"boom\")\nValueError: boom\n";
  WorkerFailure second = failure_of(0, 1);
  second.stderr_tail = root.stderr_tail.substr(13);
  WorkerFailure stopped = failure_of(2, 0);
  stopped.status = ExitStatus{true, SIGTERM};
  stopped.after_stop = true;
  CHECK(render_report(failed({root, second, stopped}), kSite) ==
        "muster: train.py: rank 1 exited with code 7\n"
        "  node node1, local rank 1, pid 101\n"
        "  | Traceback (most recent call last):\n"
        "  |   File \"train.py\", line 3, in <module>\n"
        "  |     raise ValueError(\"boom\")\n"
        "  | ValueError: boom\n"
        "  1 other rank failed after it: 0 (1 with the same traceback)\n"
        "  logs: /logs/job_x\n");
}

TEST_CASE("report: of ranks that exit after the stop request, only a lost connection is shown") {
  const auto report_with = [](const std::string& text) {
    WorkerFailure late = failure_of(0, 1);
    late.after_stop = true;
    late.stderr_tail = text + "\n";
    return render_report(failed({failure_of(1, 7), late}), kSite);
  };
  CHECK(report_with("RuntimeError: Connection closed by peer")
            .find("  | rank 0: RuntimeError: Connection closed by peer\n") != std::string::npos);
  CHECK(report_with("ValueError: interrupted").find("interrupted") == std::string::npos);
}

TEST_CASE("report: other ranks' messages use lines of evidence, unless they only lost the root") {
  WorkerFailure root = failure_of(2, 1);
  for (int i = 0; i < 20; ++i) {
    root.stderr_tail += "line " + std::to_string(i) + "\n";
  }
  WorkerFailure other = failure_of(0, 1);
  other.stderr_tail = "PeerFailed: rank 2 has left\n";
  const auto report_where = [&](bool root_lost, bool other_lost) {
    root.lost_connection = root_lost;
    other.lost_connection = other_lost;
    return render_report(failed({root, other}), kSite);
  };
  for (const bool root_lost : {false, true}) {
    const std::string report = report_where(root_lost, root_lost);
    CHECK(report.find("  | rank 0: PeerFailed: rank 2 has left\n") != std::string::npos);
    CHECK(report.find("  | line 12\n") == std::string::npos);
    CHECK(report.find("  | line 13\n") != std::string::npos);
  }
  const std::string report = report_where(false, true);
  CHECK(report.find("  1 other rank failed after it: 0\n  logs:") != std::string::npos);
  CHECK(report.find("  | line 12\n") != std::string::npos);
  root.stderr_tail = "1\n2\n3\n4\n5\n6\n7\n";
  CHECK(report_where(false, true).find("  | rank 0: PeerFailed: rank 2 has left\n") !=
        std::string::npos);
}

TEST_CASE("report: the error file's traceback precedes other lines from stderr") {
  WorkerFailure root = failure_of(0, 1);
  root.record = ErrorRecord{"E: x", "Traceback (most recent call last):\n  a\nE: x\n", 5.0};
  root.stderr_tail = "first line\nTraceback (most recent call last):\n  a\nE: x\nlast line\n";
  const std::string report = render_report(failed({root}), kSite);
  CHECK(report.find("  | E: x\n  | first line\n  | last line\n") != std::string::npos);
}

TEST_CASE("report: a recorded traceback is not repeated with the additional frames from stderr") {
  WorkerFailure root = failure_of(0, 1);
  root.record = ErrorRecord{"E: x", "Traceback (most recent call last):\n  a\nE: x\n", 5.0};
  root.stderr_tail =
      "first line\nTraceback (most recent call last):\n  <module>\n  a\nE: x\nlast line\n";
  const std::string report = render_report(failed({root}), kSite);
  CHECK(report.find("  | E: x\n  | first line\n  | last line\n") != std::string::npos);
  CHECK(report.find("<module>") == std::string::npos);
}

namespace {

// As printed by Python; PyTorch puts `prefix` before each line.
std::string chain_of(const std::string& prefix, const std::vector<std::string>& links) {
  std::string out;
  for (std::size_t i = 0; i <= links.size(); ++i) {
    out += prefix + "Traceback (most recent call last):\n";
    for (const int line : {1, 2, 3}) {
      out += prefix + "  File \"train.py\", line " + std::to_string(line) + ", in f\n" + prefix +
             "    g()\n";
    }
    out += prefix + "Error" + std::to_string(i) + ": no such file\n";
    if (i < links.size()) {
      out += prefix + "\n" + prefix + links[i] + "\n" + prefix + "\n";
    }
  }
  return out;
}

const std::string kCause = "The above exception was the direct cause of the following exception:";
const std::string kDuring = "During handling of the above exception, another exception occurred:";

}  // namespace

TEST_CASE("report: distinguishes PyTorch's abort at exit from an abort of the program") {
  WorkerFailure root = failure_of(1, 0);
  root.status = ExitStatus{true, SIGABRT, true};
  root.stderr_tail = "1\n2\n3\n4\n5\n6\n7\nterminate called without an active exception\n";
  const std::string text = render_report(failed({root}), kSite);
  CHECK(text.find("  | terminate called without an active exception\n  hint: this is a known "
                  "PyTorch bug at program exit (pytorch#190489): ") != std::string::npos);
  CHECK(text.find("destroy_process_group()") != std::string::npos);
  root.stderr_tail.clear();
  const auto without = lines_in(render_report(failed({root}), kSite));
  CHECK(lines_in(text) == without + 8);  // the hint replaces a line of evidence
  for (const std::string other : {"Traceback (most recent call last):\nE: 1\nterminate called "
                                  "without an active exception\n",
                                  "terminate called after throwing an instance of 'E'\n"}) {
    root.stderr_tail = other;
    CHECK(render_report(failed({root}), kSite).find("hint") == std::string::npos);
  }
}

TEST_CASE("report: a missing module shows which Python interpreter ran") {
  WorkerFailure root = failure_of(1, 1);
  root.python = "/usr/bin/python3";
  for (const std::string prefix : {"", "[rank1]: "}) {
    root.stderr_tail = prefix + "Traceback (most recent call last):\n" + prefix +
                       "  File \"a.py\", line 1, in <module>\n" + prefix +
                       "ModuleNotFoundError: No module named 'torch'\n";
    CHECK(render_report(failed({root}), kSite)
              .find("\n  hint: the worker ran with /usr/bin/python3;") != std::string::npos);
  }
  root.python.clear();  // a program that starts Python itself
  CHECK(render_report(failed({root}), kSite).find("hint") == std::string::npos);
  root.python = "/usr/bin/python3";
  root.stderr_tail +=
      "\nDuring handling of the above exception, another exception occurred:\n\n"
      "Traceback (most recent call last):\n  File \"a.py\", line 2, in <module>\n"
      "ValueError: 1\n";
  CHECK(render_report(failed({root}), kSite).find("hint") == std::string::npos);
}

TEST_CASE("report: keeps the message of each exception in a chain") {
  for (const std::string prefix : {"", "[rank1]: "}) {
    WorkerFailure root = failure_of(1, 1);
    root.stderr_tail = "an older one\n" + chain_of(prefix, {}) + "and goes on\n" +
                       chain_of(prefix, {kCause, kDuring});
    const std::string text = render_report(failed({root}), kSite);
    CHECK(text.find("  | " + prefix + "Error0: no such file\n  | " + prefix +
                    "Error1: no such file\n  | ") != std::string::npos);
    CHECK(text.find("g()\n  | " + prefix + "Error2: no such file\n") != std::string::npos);
    CHECK(lines_in(text) == 11);
    CHECK(traceback_of(root).find("goes on") == std::string::npos);
    // The same, as an error file contains it.
    root.record = ErrorRecord{"Error2", chain_of(prefix, {kCause, kDuring}), std::nullopt};
    root.stderr_tail.clear();
    CHECK(render_report(failed({root}), kSite) == text);
  }
}

TEST_CASE("report: keeps the first and the last exceptions of a long chain") {
  WorkerFailure root = failure_of(1, 1);
  root.stderr_tail = chain_of("", std::vector<std::string>(40, kDuring));
  const std::string text = render_report(failed({root}), kSite);
  for (const char* shown : {"Error0:", "Error37:", "Error38:", "Error39:", "Error40:"}) {
    INFO(shown);
    CHECK(text.find(shown) != std::string::npos);
  }
  CHECK(text.find("Error36:") == std::string::npos);
  CHECK(lines_in(text) == 11);
}

TEST_CASE("report: an error handler that fails to write its file does not hide the exception") {
  WorkerFailure root = failure_of(0, 1);
  root.stderr_tail =
      "Traceback (most recent call last):\n  File \"train.py\", line 6, in main\n"
      "ValueError: bad batch\n\n"
      "During handling of the above exception, another exception occurred:\n\n"
      "Traceback (most recent call last):\n  File \"train.py\", line 9, in <module>\n"
      "  File \"error_handler.py\", line 113, in record_exception\n"
      "    with open(file, \"w\") as fp:\n"
      "FileNotFoundError: [Errno 2] No such file or directory: 'error.json'\n";
  const std::string report = render_report(failed({root}), kSite);
  CHECK(report.find("ValueError: bad batch") != std::string::npos);
  CHECK(report.find("FileNotFoundError") == std::string::npos);
}

TEST_CASE("report: without a traceback it shows the last lines of stderr") {
  WorkerFailure root = failure_of(0, 1);
  for (int i = 0; i < 50; ++i) {
    root.stderr_tail += "line " + std::to_string(i) + "\n";
  }
  const std::string report = render_report(failed({root}), kSite);
  CHECK(report.find("  | line 49\n") != std::string::npos);
  CHECK(report.find("  | line 42\n") != std::string::npos);
  CHECK(report.find("  | line 41\n") == std::string::npos);
}

TEST_CASE("report: never longer than fifteen lines") {
  std::vector<WorkerFailure> failures;
  for (int rank = 0; rank < 64; ++rank) {
    WorkerFailure failure = failure_of(rank, 1);
    failure.record = ErrorRecord{"m", "Traceback (most recent call last):\n", 5.0};
    for (int i = 0; i < 100; ++i) {
      failure.record->traceback += "  frame\n";
      failure.stderr_tail += "other " + std::to_string(i) + std::string(1000, 'x') + "\n";
    }
    failures.push_back(failure);
  }
  JobResult result = failed(failures);
  result.verdict = "all 3 restarts are used up";
  result.attempt = 3;
  result.overdue.assign(64, 5);
  result.survivors.assign(64, Survivor{1, 'D', "x"});
  const std::string report = render_report(result, kSite);
  CHECK(lines_in(report) <= kReportLinesMax);
  CHECK(report.find("63 other ranks failed after it") != std::string::npos);
  CHECK(report.find("  logs: /logs/job_x\n") != std::string::npos);
  CHECK(report.size() < kReportLinesMax * (kReportLineBytesMax + 10));
}

TEST_CASE("report: a worker's escape sequences and bells do not reach the terminal") {
  WorkerFailure root = failure_of(0, 1);
  root.stderr_tail = "\x1b[2Jwiped\a\r\n";
  const std::string report = render_report(failed({root}), kSite);
  CHECK(report.find('\x1b') == std::string::npos);
  CHECK(report.find("[2Jwiped") != std::string::npos);
}

TEST_CASE("report: a worker that never started has no pid") {
  WorkerFailure root;
  root.spawn_error = Error{Errc::not_found, "exec './x': No such file or directory"};
  const std::string report = render_report(failed({root}), kSite);
  CHECK(report.find("rank 0 could not be started: exec './x'") != std::string::npos);
  CHECK(report.find("pid") == std::string::npos);
}

TEST_CASE("report: an interruption names the signal and its sender in one line") {
  JobResult result;
  result.outcome = Outcome::interrupted;
  result.interrupting_signal = SIGTERM;
  result.interrupting_sender = 42;
  CHECK(render_report(result, ReportSite{"n", "p", "", false}) ==
        "muster: interrupted by SIGTERM from pid 42\n");
}

TEST_CASE("report: processes that could not be killed are listed even after success") {
  JobResult result;
  result.survivors = {Survivor{77, 'D', "stuck"}};
  const std::string report = render_report(result, ReportSite{"n", "p", "", false});
  CHECK(report == "muster: warning: could not be killed: pid 77 (stuck, state D)\n");
}
