// SPDX-License-Identifier: Apache-2.0
// The rules of FailureHistory, one by one. tests/judgement scores them with a corpus.
#include "agent/failures/failure_history.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <csignal>
#include <string>

using namespace muster;
using namespace std::chrono_literals;

namespace {

std::string traceback(const std::string& exception) {
  return "Traceback (most recent call last):\n  File \"train.py\", line 2, in <module>\n"
         "    train()\n" +
         exception + "\n";
}

WorkerFailure failed(int rank, const std::string& text, std::optional<std::uint64_t> step = {}) {
  WorkerFailure failure;
  failure.rank = rank;
  failure.status = ExitStatus{false, 1};
  failure.stderr_tail = text;
  failure.run_time = 12s;
  failure.step = step;
  return failure;
}

WorkerFailure exited(int rank, int code) {
  WorkerFailure failure = failed(rank, "");
  failure.status = ExitStatus{false, code};
  return failure;
}

WorkerFailure killed(int rank, int signo, std::optional<std::uint64_t> step = {}) {
  WorkerFailure failure = failed(rank, "", step);
  failure.status = ExitStatus{true, signo};
  return failure;
}

// The judgement after two rounds of 4 workers.
Judgement after(const WorkerFailure& first, const WorkerFailure& second) {
  FailureHistory history;
  history.begin_round(4);
  history.note(first);
  history.begin_round(4);
  history.note(second);
  return history.judge();
}

Judgement after(const WorkerFailure& only) {
  FailureHistory history;
  history.begin_round(4);
  history.note(only);
  return history.judge();
}

const std::string kBug = traceback("ValueError: bad batch");

}  // namespace

TEST_CASE("judgement: the same rank, traceback and step twice") {
  const Judgement judged = after(failed(3, kBug, 120), failed(3, kBug, 120));
  CHECK(judged.advice == Advice::stop);
  CHECK(judged.cause == Cause::bug);
  CHECK(judged.text ==
        "a restart will not help: rank 3 failed twice at step 120 with the same traceback "
        "(ValueError: bad batch)");
  CHECK(after(failed(3, kBug, 120)).advice == Advice::restart);
  CHECK(after(failed(3, kBug, 120), failed(2, kBug, 120)).advice == Advice::restart);
  CHECK(after(failed(3, kBug, 120), failed(3, kBug, 180)).advice == Advice::restart);
  CHECK(after(failed(3, kBug, 120), failed(3, kBug)).advice == Advice::restart);
  CHECK(after(failed(3, kBug, 120), failed(3, traceback("KeyError: 3"), 120)).advice ==
        Advice::restart);
}

TEST_CASE("judgement: addresses do not distinguish two tracebacks") {
  const std::string one = traceback("TypeError: <Batch object at 0x7f12ab> is not callable");
  const std::string two = traceback("TypeError: <Batch object at 0x7e99cd> is not callable");
  CHECK(after(failed(0, one), failed(0, two)).advice == Advice::stop);
}

TEST_CASE("judgement: without steps, the run times show the point of the failure") {
  WorkerFailure late = failed(0, kBug);
  late.run_time = 1h;
  CHECK(after(failed(0, kBug), failed(0, kBug)).text ==
        "a restart will not help: rank 0 failed twice after 12s with the same traceback "
        "(ValueError: bad batch)");
  CHECK(after(failed(0, kBug), late).advice == Advice::restart);
  CHECK(after(failed(0, traceback("ValueError: bad batch 17")),
              failed(0, traceback("ValueError: bad batch 18")))
            .advice == Advice::restart);
}

TEST_CASE("judgement: causes outside the program may go away") {
  for (const char* exception : {"ConnectionRefusedError: [Errno 111] Connection refused",
                                "RuntimeError: Connection closed by peer [127.0.0.1]:41873",
                                "torch.distributed.DistBackendError: Watchdog caught collective "
                                "operation timeout"}) {
    INFO(exception);
    CHECK(after(failed(0, traceback(exception), 5), failed(0, traceback(exception), 5)).advice ==
          Advice::restart);
  }
}

TEST_CASE("judgement: a lost peer is not the cause") {
  FailureHistory history;
  for (int round = 0; round < 2; ++round) {
    history.begin_round(4);
    history.note(failed(0, traceback("RuntimeError: Connection closed by peer"), 7));
    history.note(failed(2, kBug, 7));
  }
  CHECK(history.judge().text.contains("rank 2 failed twice at step 7"));
}

TEST_CASE("judgement: import, syntax and usage errors on all ranks") {
  const std::string missing = traceback("ModuleNotFoundError: No module named 'apex'");
  FailureHistory history;
  history.begin_round(2);
  history.note(failed(0, missing));
  CHECK(history.judge().advice == Advice::restart);
  CHECK(history.judge().cause == Cause::import);
  history.note(failed(1, missing));
  CHECK(history.judge().text ==
        "a restart will not help: all 2 ranks failed within 12s with an import error "
        "(ModuleNotFoundError: No module named 'apex')");
  FailureHistory late;
  late.begin_round(1);
  late.note(failed(0, missing, 400));
  CHECK(late.judge().advice == Advice::restart);
  FailureHistory usage;
  usage.begin_round(1);
  WorkerFailure failure = exited(0, 2);
  failure.stderr_tail = "usage: train.py [-h]\ntrain.py: error: unrecognized arguments: --lr\n";
  usage.note(failure);
  CHECK(usage.judge().advice == Advice::stop);
  CHECK(usage.judge().cause == Cause::usage);
}

TEST_CASE("judgement: exit codes") {
  CHECK(after(exited(1, 78)).text ==
        "a restart will not help: rank 1 exited with code 78 (EX_CONFIG: invalid configuration)");
  CHECK(after(exited(1, 75)).advice == Advice::requeue);
  CHECK(after(exited(1, 63)).advice == Advice::restart);
  CHECK(after(exited(1, 79)).advice == Advice::restart);
  CHECK_FALSE(after(exited(1, 78)).named);
  FailureHistory history({3, 75});
  history.begin_round(4);
  history.note(exited(1, 75));
  CHECK(history.judge().named);
  CHECK(history.judge().text == "not restarted: rank 1 exited with code 75 (--no-restart-on)");
}

TEST_CASE("judgement: a worker that we stopped does not count for --no-restart-on") {
  FailureHistory history({3});
  history.begin_round(4);
  history.note(failed(0, kBug));
  WorkerFailure stopped = exited(1, 3);
  stopped.after_stop = true;
  history.note(stopped);
  CHECK_FALSE(history.judge().named);
}

TEST_CASE("judgement: memory") {
  const std::string gpu =
      traceback("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB");
  CHECK(after(failed(1, gpu, 40)).advice == Advice::restart);
  CHECK(after(failed(1, gpu, 40), failed(1, gpu, 40)).text ==
        "a restart will not help: rank 1 ran out of GPU memory twice at step 40");
  WorkerFailure host = killed(1, SIGKILL, 40);
  host.out_of_memory = true;
  CHECK(after(host, host).text ==
        "a restart will not help: rank 1 ran out of host memory twice at step 40");
  CHECK(after(killed(1, SIGKILL, 40), killed(1, SIGKILL, 40)).advice == Advice::restart);
}

TEST_CASE("judgement: signals") {
  CHECK(after(killed(1, SIGSEGV, 40), killed(1, SIGSEGV, 40)).text ==
        "a restart will not help: rank 1 was killed twice at step 40 by SIGSEGV");
  CHECK(after(killed(1, SIGSEGV, 40), killed(1, SIGSEGV, 41)).advice == Advice::restart);
  CHECK(after(killed(1, SIGTERM, 40), killed(1, SIGTERM, 40)).advice == Advice::restart);
}

TEST_CASE("judgement: the kernel log") {
  FailureHistory history;
  history.begin_round(4);
  history.note(failed(2, traceback("RuntimeError: CUDA error: unspecified launch failure")));
  history.note_kernel_log("NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, MMU Fault");
  CHECK(history.judge().advice == Advice::restart);
  history.note_kernel_log("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.");
  CHECK(history.judge().advice == Advice::bad_node);
  CHECK(history.judge().text ==
        "this node may be faulty: rank 2 failed, and the kernel logged Xid 79");
}

TEST_CASE("judgement: older rounds are forgotten") {
  FailureHistory history;
  history.begin_round(4);
  history.note(failed(3, kBug, 120));
  for (std::size_t i = 0; i < kRoundsRemembered; ++i) {
    history.begin_round(4);
  }
  history.note(failed(3, kBug, 120));
  CHECK(history.judge().advice == Advice::restart);
}
