// SPDX-License-Identifier: Apache-2.0
#include "remote/repeated_messages.hpp"

#include "support/catch.hpp"

using namespace muster;

namespace {

std::string taken(RepeatedMessages& messages, std::size_t host, std::string_view lines) {
  std::string out;
  messages.take(host, lines, out);
  return out;
}

constexpr std::string_view kReport =
    "muster: x: rank 1 exited with code 3\n  node a\n  | Traceback\n";

}  // namespace

TEST_CASE("repeated messages: the same report from several machines is shown once") {
  RepeatedMessages messages;
  CHECK(taken(messages, 1, kReport) == kReport);
  CHECK(taken(messages, 0, kReport) == "");
  CHECK(taken(messages, 2, "before\n" + std::string(kReport) + "behind\n") == "before\nbehind\n");
}

TEST_CASE("repeated messages: a report that arrives in pieces still counts as one") {
  RepeatedMessages messages;
  CHECK(taken(messages, 0, kReport) == kReport);
  CHECK(taken(messages, 1, "muster: x: rank 1 exited with code 3\n") == "");
  CHECK(taken(messages, 2, "  something of a worker\n") == "  something of a worker\n");
  CHECK(taken(messages, 1, "  node a\n  logs /tmp/1\nx\n") == "x\n");
}

TEST_CASE("repeated messages: the same signal interrupts all machines") {
  RepeatedMessages messages;
  const std::string first = "muster: interrupted by SIGINT from pid 17\n";
  CHECK(taken(messages, 0, first) == first);
  CHECK(taken(messages, 1, "muster: interrupted by SIGINT from pid 18\n") == "");
  const std::string other = "muster: interrupted by SIGTERM from pid 19\n";
  CHECK(taken(messages, 2, other) == other);
}

TEST_CASE("repeated messages: our own stop is not reported as an interruption") {
  RepeatedMessages messages;
  messages.hide_interruption("SIGTERM");
  CHECK(taken(messages, 0, "muster: interrupted by SIGTERM from pid 17\n  more\nx\n") == "x\n");
  CHECK(taken(messages, 0, "muster: interrupted by SIGINT\n") == "muster: interrupted by SIGINT\n");
}

TEST_CASE("repeated messages: a machine may repeat itself, and workers may print anything") {
  RepeatedMessages messages;
  CHECK(taken(messages, 0, "muster: warning: a\n") == "muster: warning: a\n");
  CHECK(taken(messages, 0, "muster: warning: a\n") == "muster: warning: a\n");
  CHECK(taken(messages, 0, "loss 1.0\n") == "loss 1.0\n");
  CHECK(taken(messages, 1, "loss 1.0\n") == "loss 1.0\n");
}
