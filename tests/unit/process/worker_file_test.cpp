// SPDX-License-Identifier: Apache-2.0
#include "process/output/worker_file.hpp"

#include "job_probe.hpp"
#include "process/output/output_pump.hpp"
#include "support/catch.hpp"

#include <array>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace muster;
using namespace muster::testing;

namespace {

constexpr int kPlentyOfDescriptors = 1 << 20;

// A log file as seen by a worker, and as seen by muster.
struct Log {
  explicit Log(int scarce_from = kPlentyOfDescriptors) : file(path, out.get(), scarce_from) {}

  void print(std::string_view text) const {
    REQUIRE(::write(out.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }

  std::string read() {
    std::array<char, 4096> buffer{};
    REQUIRE(file.open());
    const auto count = file.read(buffer.data(), buffer.size());
    file.close_if_sparing();
    REQUIRE(count >= 0);
    return std::string(buffer.data(), static_cast<std::size_t>(count));
  }

  TempDir dir;
  std::string path = dir.path() + "/stdout.log";
  UniqueFd out = *open_output_file(path);
  WorkerFile file;
};

// Like logrotate with "create", or like a user.
void rename_and_create(const std::string& path) {
  REQUIRE(::rename(path.c_str(), (path + ".1").c_str()) == 0);
  write_file(path, "somebody else's\n");
}

void remove_it(const std::string& path) {
  REQUIRE(::unlink(path.c_str()) == 0);
}

}  // namespace

TEST_CASE("worker file: continues to read a file that was renamed or removed") {
  Log log;
  const auto rotate = GENERATE(&rename_and_create, &remove_it);
  log.print("one\n");
  CHECK(log.read() == "one\n");
  rotate(log.path);
  log.print("two\n");
  CHECK(log.read() == "two\n");
  CHECK(log.file.written() == 8);
  CHECK(log.file.last_bytes(100) == "one\ntwo\n");
  CHECK(log.file.take_lost() == 0);
}

TEST_CASE(
    "worker file: without an open descriptor it finds the file by path, or through the worker") {
  Log log(0);
  CHECK(log.read().empty());
  CHECK(log.file.fd() < 0);
  log.print("one\n");
  CHECK(log.read() == "one\n");
  rename_and_create(log.path);
  log.print("two\n");
  CHECK_FALSE(log.file.open());  // not the other file
  log.file.set_writer(::getpid(), log.out.get());
  CHECK(log.read() == "two\n");
  CHECK(log.file.last_bytes(4) == "two\n");
  CHECK(log.file.written() == 8);
}

TEST_CASE("worker file: reads from the start after a truncation, and counts the lost bytes") {
  Log log;
  log.print("read before\n");
  CHECK(log.read() == "read before\n");
  log.print("never read\n");
  CHECK(log.file.available() == 11);
  REQUIRE(::truncate(log.path.c_str(), 0) == 0);
  CHECK(log.file.written() == 23);  // no progress, but it does not go backwards
  log.print("new\n");
  CHECK(log.file.written() == 27);
  CHECK(log.read() == "new\n");  // the worker appends, so there is no gap
  CHECK(log.file.take_lost() == 11);
  CHECK(log.file.take_lost() == 0);
}

TEST_CASE("worker file: reads from the start if a truncated file outgrew the old offset") {
  Log log;
  log.print("short\n");
  CHECK(log.read() == "short\n");
  REQUIRE(::truncate(log.path.c_str(), 0) == 0);
  log.print("longer than before\n");
  CHECK(log.read() == "longer than before\n");
  CHECK(log.file.take_lost() == 0);
  CHECK(log.file.written() == 25);
}

TEST_CASE("output: sees progress and the last lines of standard error after a rotation") {
  const TempDir dir;
  const bool tee = GENERATE(false, true);
  const auto rotate = GENERATE(&rename_and_create, &remove_it);
  auto poller = *Poller::open();
  Console console(poller);
  OutputPump pump(poller, console, false);
  OutputPlan plan;
  plan.kind = OutputKind::file;
  plan.path = dir.path() + "/stderr.log";
  plan.tee = tee;
  const auto given = pump.open_stream(0, 2, plan);
  REQUIRE(given);
  const UniqueFd worker(::dup(*given));
  pump.close_child_side(0, ::getpid());
  CHECK(pump.output_bytes(0) == 0);
  rotate(plan.path);
  const std::string_view text = "ValueError: bad batch\n";
  REQUIRE(::write(worker.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  CHECK(pump.output_bytes(0) == text.size());
  CHECK(pump.stderr_tail(0) == text);
}

TEST_CASE("output: one warning counts bytes that were truncated before they were read") {
  const TempDir dir;
  const auto log = dir.path() + "/stderr.log";
  const auto console_path = dir.path() + "/console";
  {
    const UniqueFd ours(::dup(2));
    const UniqueFd file(::open(console_path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    REQUIRE(::dup2(file.get(), 2) == 2);
    auto poller = *Poller::open();
    Console console(poller);
    OutputPump pump(poller, console, false);
    OutputPlan plan;
    plan.kind = OutputKind::file;
    plan.path = log;
    plan.tee = true;
    const auto given = pump.open_stream(0, 2, plan);
    const bool wrote = given && ::write(*given, "never read\n", 11) == 11;
    const auto seen = pump.output_bytes(0);
    const bool cut = ::truncate(log.c_str(), 0) == 0 && ::write(*given, "new\n", 4) == 4;
    static_cast<void>(pump.turn());
    static_cast<void>(pump.turn());
    ::dup2(ours.get(), 2);
    REQUIRE((wrote && cut));
    CHECK(seen == 11);
  }
  const auto shown = read_file(console_path);
  CHECK(shown.starts_with("new\n"));
  CHECK(
      shown.find("'" + log + "' was truncated before muster had read it all: at least 11 bytes") !=
      std::string::npos);
}
