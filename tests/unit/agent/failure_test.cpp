// SPDX-License-Identifier: Apache-2.0
#include "agent/failures/failure.hpp"

#include "agent/failures/job_result.hpp"
#include "support/catch.hpp"

#include <csignal>

using namespace muster;

namespace {

WorkerFailure seen(int rank, ExitStatus status, double at, bool after_stop = false) {
  WorkerFailure failure;
  failure.rank = rank;
  failure.status = status;
  failure.wall_seconds = at;
  failure.after_stop = after_stop;
  return failure;
}

WorkerFailure with_record(WorkerFailure failure, double raised_at) {
  failure.record = ErrorRecord{"RuntimeError: boom", "Traceback", raised_at};
  return failure;
}

constexpr ExitStatus kExit1{false, 1};
constexpr ExitStatus kTerm{true, SIGTERM};

}  // namespace

TEST_CASE("failure: the first one to be observed is the root cause") {
  CHECK(root_cause({seen(3, kExit1, 10), seen(0, kExit1, 10)}, SIGTERM) == 0U);
  CHECK_FALSE(root_cause({}, SIGTERM));
}

TEST_CASE("failure: a worker that the launcher stopped has not failed") {
  const auto stopped = seen(0, kTerm, 10, true);
  CHECK(was_stopped_by_us(stopped, SIGTERM));
  CHECK(was_stopped_by_us(seen(0, {false, 143}, 10, true), SIGTERM));
  CHECK(was_stopped_by_us(seen(0, {true, SIGKILL}, 10, true), SIGTERM));
  CHECK_FALSE(was_stopped_by_us(seen(0, kTerm, 10, false), SIGTERM));
  CHECK_FALSE(was_stopped_by_us(seen(0, kExit1, 10, true), SIGTERM));
  CHECK_FALSE(root_cause({stopped}, SIGTERM));
}

TEST_CASE("failure: an error file that proves an earlier exception makes its rank the root cause") {
  // Rank 1 lost its connection and died at 12.5; rank 0 had raised an exception at 10 and died
  // later.
  const auto later_death = with_record(seen(0, kTerm, 13, true), 10);
  CHECK(root_cause({seen(1, kExit1, 12.5), later_death}, SIGTERM) == 1U);
  // Within the same second, the order proves nothing.
  const auto same_second = with_record(seen(0, kExit1, 13, true), 12);
  CHECK(root_cause({seen(1, kExit1, 12.5), same_second}, SIGTERM) == 0U);
}

TEST_CASE("failure: compares the error files of both ranks") {
  const auto first_seen = with_record(seen(1, kExit1, 20), 15);
  const auto first_raised = with_record(seen(0, kExit1, 21), 11);
  CHECK(root_cause({first_seen, first_raised}, SIGTERM) == 1U);
}

TEST_CASE("failure: describes how a worker exited, with memory usage if the kernel reports it") {
  WorkerFailure killed = seen(0, {true, SIGKILL}, 1);
  killed.out_of_memory = true;
  killed.memory_usage = "limit 512 MiB, peak 512 MiB";
  CHECK(describe_end(killed).find(": out of memory (limit 512 MiB, peak 512 MiB)") !=
        std::string::npos);
  WorkerFailure never;
  never.spawn_error = Error{Errc::not_found, "exec './x': No such file or directory"};
  CHECK(describe_end(never) == "could not be started: exec './x': No such file or directory");
}

TEST_CASE("job result: the root cause's exit code or signal becomes the launcher's exit code") {
  for (int code = 1; code < 256; ++code) {
    JobResult result;
    result.outcome = Outcome::failed;
    result.failures = {seen(0, {false, code}, 1)};
    CHECK(exit_code_of(result) == code);
  }
  for (int signo = 1; signo < 65; ++signo) {
    JobResult result;
    result.outcome = Outcome::failed;
    result.failures = {seen(0, {true, signo}, 1)};
    CHECK(exit_code_of(result) == 128 + signo);
  }
}

TEST_CASE("job result: the launcher's own failures have documented exit codes") {
  CHECK(exit_code_of(Error{Errc::usage, ""}) == 2);
  CHECK(exit_code_of(Error{Errc::not_possible, ""}) == 126);
  CHECK(exit_code_of(Error{Errc::not_found, ""}) == 127);
  CHECK(exit_code_of(Error{Errc::timed_out, ""}) == 69);
  CHECK(exit_code_of(Error{Errc::internal, ""}) == 70);
}

TEST_CASE("failure: a lost connection is not the cause if another rank failed before the stop") {
  auto lost = seen(0, kExit1, 10);
  lost.lost_connection = true;
  const auto cause = seen(2, kExit1, 11);
  const auto later = seen(3, kExit1, 12, true);
  CHECK(root_cause({lost, cause, later}, SIGTERM) == 1U);
  CHECK(root_cause({lost, later}, SIGTERM) == 0U);
  CHECK(root_cause({lost, lost}, SIGTERM) == 0U);
}

TEST_CASE("failure: the message for the leader says if a restart can help") {
  WorkerFailure failure = seen(3, kExit1, 10);
  failure.run_time = std::chrono::seconds(2);
  const Failed own_exit = failed_message(failure);
  CHECK(own_exit.rank == 3);
  CHECK(own_exit.exit_code == 1);
  CHECK(own_exit.run_time == failure.run_time);
  CHECK(own_exit.exited);
  CHECK_FALSE(own_exit.permanent);
  CHECK(own_exit.text == "exited with code 1");

  failure.spawn_error = Error{Errc::not_possible, "not executable"};
  CHECK(failed_message(failure).permanent);
  CHECK_FALSE(failed_message(failure).exited);
  failure.spawn_error->code = Errc::system;  // such as too many processes
  CHECK_FALSE(failed_message(failure).permanent);

  failure.spawn_error.reset();
  failure.hung = true;
  failure.ends_job = true;
  CHECK(failed_message(failure).permanent);
}

TEST_CASE("failure: which judgements name a cause that the node may be the reason for") {
  const auto cause = [](Advice advice, Cause kind, bool named = false, bool preempted = false) {
    WorkerFailure failure = seen(0, {true, SIGSEGV}, 10);
    failure.judgement = Judgement{advice, kind, named, ""};
    failure.preempted = preempted;
    return node_cause_of(failure);
  };
  CHECK(cause(Advice::restart, Cause::signal) == kSignal);
  CHECK(cause(Advice::bad_node, Cause::hardware) == "hardware");
  CHECK(cause(Advice::restart, Cause::bug).empty());
  CHECK(cause(Advice::stop, Cause::signal) == kRepeatedSignal);
  CHECK(cause(Advice::stop, Cause::unknown).empty());
  CHECK(cause(Advice::stop, Cause::host_memory).empty());
  CHECK(cause(Advice::stop, Cause::signal, true).empty());
  CHECK(cause(Advice::requeue, Cause::signal).empty());
  CHECK(cause(Advice::restart, Cause::signal, false, true).empty());
  CHECK(node_cause_of(seen(0, kExit1, 10)).empty());
}
