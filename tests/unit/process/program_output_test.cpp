// SPDX-License-Identifier: Apache-2.0
#include "process/start/program_output.hpp"

#include "support/catch.hpp"

using namespace muster;

namespace {

Result<std::string> printed_by(const std::string& script,
                               Duration timeout = std::chrono::seconds(60)) {
  return program_output({{"sh", "-c", script}, {"PATH=/usr/bin:/bin", "A=b"}, timeout, 1000});
}

}  // namespace

TEST_CASE("program output: returns a program's output, with its own environment and no errors") {
  CHECK(printed_by("echo $A; echo no >&2").value() == "b\n");
  CHECK(printed_by("read line || echo none").value() == "none\n");
}

TEST_CASE("program output: a program that fails, hangs or prints too much returns nothing") {
  CHECK(printed_by("echo x; exit 1").error().code == Errc::not_possible);
  CHECK(printed_by("kill -9 $$").error().code == Errc::not_possible);
  CHECK(printed_by("exec sleep 600", std::chrono::milliseconds(10)).error().code ==
        Errc::timed_out);
  CHECK(printed_by("exec yes").error().code == Errc::timed_out);
  CHECK(program_output({{"/no/such/program"}, {}, std::chrono::seconds(60), 1}).error().code ==
        Errc::not_found);
}
