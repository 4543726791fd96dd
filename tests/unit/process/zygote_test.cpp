// SPDX-License-Identifier: Apache-2.0
// Zygote: the messages sent to it, and invalid answers. tests/integration/test_warm.py tests the
// real one, forking real workers.
#include "process/warm/zygote.hpp"

#include "process/start/inherited_state.hpp"
#include "process/warm/worker_message.hpp"
#include "support/catch.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

using namespace muster;
using namespace std::string_literals;

namespace {

using Args = std::vector<std::string>;

// Shell scripts in place of a zygote. Their standard input is the socket, which is read and written
// message by message.
struct Bench {
  explicit Bench(const std::string& script) : Bench(Args{"sh", "-c", script}) {}

  explicit Bench(Args argv) {
    ProcessSpec spec;
    spec.argv = std::move(argv);
    spec.environment = {"PATH=/usr/bin:/bin"};
    auto started = Zygote::start(
        poller, spec, inherited_state(), false, [this](const Zygote::News& news) { heard = news; });
    REQUIRE(started);
    zygote = std::move(*started);
    pid = zygote->pid();
  }

  ~Bench() {
    zygote.reset();
    ::waitpid(pid, nullptr, 0);
  }

  Zygote::News news() {
    while (!heard) {
      poller.dispatch(-1);
    }
    return *heard;
  }

  Poller poller = std::move(*Poller::open());
  std::optional<Zygote::News> heard;
  std::unique_ptr<Zygote> zygote;
  pid_t pid = 0;
};

std::string answer(const std::string& text) {
  return "dd bs=64 count=1 of=/dev/null 2>/dev/null; printf '" + text + "' >&0";
}

}  // namespace

TEST_CASE("zygote: formats a worker's request") {
  ProcessSpec spec;
  spec.argv = {"python3", "-u", "a b.py"};
  spec.environment = {"RANK=1", "EMPTY="};
  const std::string text = encode_worker(spec);
  CHECK(text == "3\0\0\0python3\0-u\0a b.py\0RANK=1\0EMPTY=\0"s);
  spec.cpus = CpuSet::parse("0-3,8").value();
  spec.memory = CpuSet::parse("1").value();
  CHECK(
      encode_worker(spec).starts_with("3\0"
                                      "0-3,8\0"
                                      "1\0python3\0"s));
}

TEST_CASE("zygote: parses the answer whether workers can be forked") {
  using What = Zygote::News::What;
  CHECK(Bench(answer("ready")).news().what == What::ready);
  const auto stale = Bench(answer("stale torch has changed")).news();
  CHECK(stale.what == What::stale);
  CHECK(stale.detail == "torch has changed");
  const auto refused = Bench(answer("refused importing x has started a thread")).news();
  CHECK(refused.what == What::refused);
  CHECK(refused.detail == "importing x has started a thread");
  const auto unknown = Bench(answer("unknown no module named torhc")).news();
  CHECK(unknown.what == What::unknown);
  CHECK(unknown.detail == "no module named torhc");
  CHECK(Bench(answer("nonsense")).news().what == What::ended);
  CHECK(Bench("exit 0").news().what == What::ended);
}

TEST_CASE("zygote: a forked worker leads its group when its pid is known") {
  Bench bench({"python3", "-u", "-c", std::string(zygote_source()), "script", "", "/dev/null"});
  CHECK(bench.news().what == Zygote::News::What::ready);
  for (int i = 0; i < 20; ++i) {
    ProcessSpec worker;
    worker.argv = {"python3", "-u", "/dev/null"};
    const auto pid = bench.zygote->fork(worker, {});
    REQUIRE(pid);
    CHECK(::getpgid(*pid) == *pid);
    ::waitpid(*pid, nullptr, 0);
  }
}

TEST_CASE("zygote: an answer that does not name a process is an error") {
  for (const std::string text : {"failed no memory", "forked", "forked 0", "forked x", "ready"}) {
    Bench bench(answer("ready") + "; " + answer(text));
    CHECK(bench.news().what == Zygote::News::What::ready);
    const auto pid = bench.zygote->fork({}, {});
    REQUIRE_FALSE(pid);
    CHECK(pid.error().message == "the --warm parent process sent '" + text + "'");
  }
}

TEST_CASE("zygote: a zygote that exits instead of answering is an error") {
  Bench bench(answer("ready") + "; dd bs=64 count=1 of=/dev/null 2>/dev/null");
  bench.news();
  const auto pid = bench.zygote->fork({}, {});
  REQUIRE_FALSE(pid);
  CHECK(pid.error().message == "the --warm parent process has exited");
}
