// SPDX-License-Identifier: Apache-2.0
// The fakes detect what they are meant to detect: each error planted in our code, and each misuse
// by a direct call, terminates the program with the sentence of its rule. Without the planted error
// the same scenarios succeed, so the fakes raise no false alarms.
#include "collective/nccl/nccl_state.hpp"
#include "nccl/unit/run_scenario.hpp"
#include "nccl/unit/scenario.hpp"
#include "support/catch.hpp"

#include <array>
#include <csignal>

#include <sys/wait.h>

namespace muster::testing {
namespace {

struct Expected {
  const char* scenario;
  const char* planted;
  const char* sentence;
};

constexpr std::array kExpected = {
    Expected{"sums", "blocking communicator", "without a config that says blocking = 0"},
    Expected{"sums in progress", "no poll", "in progress"},
    Expected{"sums", "no finalize", "ncclCommDestroy without ncclCommFinalize"},
    Expected{"sums", "no current device", "without a current context"},
    Expected{"slow calls", "no device lock", "is called while another thread is inside"},
    Expected{"on a stream", "no wait for the caller's stream", "reuse before the event"},
    Expected{"on a stream", "end is recorded too early", "reuse before the event"},
    Expected{"sums", "end is recorded too early", "reuse before the event"},
    Expected{"with factor", "operator is kept", "destroyed before its operators"},
    Expected{"split", "split polls the child", "with a communicator that is not there yet"},
    Expected{"split", "split is not polled", "in progress"},
    Expected{"split", "split does not wait", "while an operation of the parent is under way"},
    Expected{"new memory", "no wait for clearing", "reuse before the event"},
    Expected{"in a graph", "captured streams are used", "while it captures a graph"},
    Expected{"registered memory", "registration is kept", "before its buffers are deregistered"},
    Expected{"after a failure", "use after abort", "with a communicator that was aborted"},
    Expected{"operation after a failure",
             "failure is ignored",
             "is called after the communicator has failed"},
    Expected{"free after an error", "error before the abort ends", "memory is freed that"},
    Expected{"while a graph is captured", "no capture mode", "while another thread captures"},
    Expected{"versions differ", "versions are not compared", "different versions of NCCL meet"}};

void check_it_breaks(const std::string& sentence, const std::vector<std::string>& args) {
  const auto ended = run_scenario(args);
  CAPTURE(args, ended.output);
  CHECK(WIFSIGNALED(ended.status));
  CHECK(WTERMSIG(ended.status) == SIGABRT);
  CHECK(ended.output.find("fake: broken rule: ") != std::string::npos);
  CHECK(ended.output.find(sentence) != std::string::npos);
}

TEST_CASE("each broken rule terminates the program with its sentence", "[slow]") {
  for (const auto& expected : kExpected) {
    check_it_breaks(expected.sentence, {expected.scenario, expected.planted});
  }
  for (const auto& [name, misuse] : misuse_scenarios()) {
    check_it_breaks(misuse.sentence, {name});
  }
}

TEST_CASE("an abort that hangs terminates the process with a special code and the reason",
          "[slow]") {
  const auto ended = run_scenario({"abort hangs"});
  CAPTURE(ended.output);
  CHECK(ended.exit_code() == collective::nccl::kStuckExit);
  CHECK(ended.output.find("ncclCommAbort has not returned within 2s") != std::string::npos);
  CHECK(ended.output.find("the test's reason") != std::string::npos);
}

TEST_CASE("with these errors, an abort that waits for other ranks counts as one that hangs",
          "[slow]") {
  for (const auto& [scenario, planted] :
       {std::pair("two communicators hang", "abort with the lock held"),
        std::pair("leaves while another hangs", "destroy with the lock held"),
        std::pair("abort before the caller's work", "abort is all or nothing"),
        std::pair("abort behind the caller's work", "the deadline covers the caller's work")}) {
    const auto ended = run_scenario({scenario, planted});
    CAPTURE(scenario, ended.output);
    CHECK(ended.exit_code() == collective::nccl::kStuckExit);
  }
}

TEST_CASE("a rank that is killed inside an operation dies there, not earlier") {
  const auto ended = run_scenario({"killed inside"});
  CAPTURE(ended.output);
  CHECK(WIFSIGNALED(ended.status));
  CHECK(WTERMSIG(ended.status) == SIGKILL);
  CHECK(ended.output.find("sum 1 is done") != std::string::npos);
  CHECK(ended.output.find("sum 2 is done") == std::string::npos);
}

TEST_CASE("without a planted error the same scenarios break no rule", "[slow]") {
  for (const auto& [name, scenario] : back_end_scenarios()) {
    const auto ended = run_scenario({name});
    CAPTURE(name, ended.output);
    CHECK(WIFEXITED(ended.status));
    CHECK(WEXITSTATUS(ended.status) == 0);
  }
}

}  // namespace
}  // namespace muster::testing
