// SPDX-License-Identifier: Apache-2.0
// Each broken rule about modules and kernels ends a program with the rule's sentence.
#include "unit/fakes_cuda/misuse.hpp"

#include "support/catch.hpp"
#include "unit/collective_nccl/run_scenario.hpp"

#include <array>
#include <csignal>
#include <set>

#include <sys/wait.h>

namespace muster::testing {
namespace {

struct Expected {
  const char* misuse;
  const char* sentence;
};

constexpr std::array kExpected = {
    Expected{"context before memory", "by its last holder before memory that is in it"},
    Expected{"context before stream", "by its last holder before a stream that is in it"},
    Expected{"unload while queued", "unloaded while a launch of its kernel is queued or running"},
    Expected{"launch after unload", "a kernel is launched after its module was unloaded"},
    Expected{"function after unload", "a module is used after it was unloaded"},
    Expected{"unloaded twice", "a module is used after it was unloaded"},
    Expected{"launch of no function", "an address that is no function of a module is launched"},
    Expected{"unload of no module", "an address that is no module is used as one"},
    Expected{"other context", "a kernel is launched in another device's context"},
    Expected{"other stream", "or on a stream of another device"},
    Expected{"unload in other context", "a module of another device's context is used"},
    Expected{"no threads", "with a block of 0 threads, or of more than 1024"},
    Expected{"many threads", "with a block of 0 threads, or of more than 1024"},
    Expected{"no blocks", "with a grid of 0 blocks, or of more than 2147483647"},
    Expected{"many blocks", "with a grid of 0 blocks, or of more than 2147483647"},
    Expected{"two dimensions", "with more than one dimension"},
    Expected{"shared memory", "with shared memory"},
    Expected{"extra", "with `extra`"},
    Expected{"no parameters", "without its parameters"},
    Expected{"null parameter", "with a parameter that is null"},
    Expected{"reads beyond", "kernel k goes beyond its buffer, or uses memory that is not"},
    Expected{"writes beyond", "kernel k goes beyond its buffer, or uses memory that is not"},
    Expected{"host memory", "or uses memory that is not the device's"},
    Expected{"freed memory", "memory is freed that kernel k may still use"},
    Expected{"read before written", "kernel k reads a buffer that kernel k writes, and no event"},
    Expected{"written while read", "a fill writes a buffer that kernel k reads, and no event"},
    Expected{"threads meet", "a kernel: k: thread 4 writes (line 14) what thread 0 writes"},
    Expected{"unwritten register", "k, line 12: thread 0 reads %t1, which it never wrote"},
    Expected{"address from data", "k, line 13: thread 0 uses memory by what it has loaded"}};

TEST_CASE("modules and kernels: each broken rule ends the program with its sentence") {
  std::set<std::string> tried = {"refused", "well used"};
  for (const auto& expected : kExpected) {
    const auto ended = run_scenario({expected.misuse});
    CAPTURE(expected.misuse, ended.words);
    CHECK(WIFSIGNALED(ended.status));
    CHECK(WTERMSIG(ended.status) == SIGABRT);
    CHECK(ended.words.find("fake: broken rule: ") != std::string::npos);
    CHECK(ended.words.find(expected.sentence) != std::string::npos);
    tried.insert(expected.misuse);
  }
  CHECK(tried.size() == misuses().size());
}

TEST_CASE("modules and kernels: what is used well, or refused, ends no program") {
  const auto used = run_scenario({"well used"});
  CHECK(used.words.empty());
  CHECK(used.exit_code() == 0);
  const auto refused = run_scenario({"refused"});
  CHECK(refused.words ==
        "fake: PTX is refused: line 14: \"sin.approx.f32\" is not among the "
        "instructions that the fake runs\nCUDA_ERROR_INVALID_PTX\n");
  CHECK(refused.exit_code() == 0);
}

}  // namespace
}  // namespace muster::testing
