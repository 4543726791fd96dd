// SPDX-License-Identifier: Apache-2.0
#include "remote/rsh_failure.hpp"

#include "support/catch.hpp"

#include <set>

using namespace muster;

namespace {

RshEnd ended(int code, std::string last_line, bool answered = false) {
  return {"b",
          {"ssh", "-o", "X=a b", "me@b", "exec muster --remote-agent"},
          {false, code, false},
          std::move(last_line),
          answered,
          0};
}

}  // namespace

TEST_CASE("rsh failure: one line with the command and its last output") {
  CHECK(describe(ended(255, "ssh: no route")) ==
        "cannot reach b with 'ssh -o 'X=a b' me@b': ssh: no route");
  CHECK(describe(ended(255, "")) ==
        "cannot reach b with 'ssh -o 'X=a b' me@b': exited with code 255");
  CHECK(describe(ended(127, "sh: muster: not found")) ==
        "b: cannot start muster there (ssh -o 'X=a b' me@b: sh: muster: not found). Install it "
        "at the same path as here, or use --rsh-muster=PATH");
  CHECK(describe(ended(255, "Connection reset", true)) ==
        "b: the connection broke (ssh -o 'X=a b' me@b: Connection reset)");
  CHECK(describe(ended(127, "", true)).find("the connection broke") != std::string::npos);
  RshEnd head = ended(255, "reset", true);
  head.behind = 7;
  CHECK(describe(head) ==
        "b: the connection broke (ssh -o 'X=a b' me@b: reset); dependent hosts: 7");
}

TEST_CASE("rsh failure: retries temporary failures, but not a refused login or a missing muster") {
  for (const char* line : {"ssh: Could not resolve hostname b: Name or service not known",
                           "kex_exchange_identification: read: Connection reset by peer",
                           "ssh: connect to host b port 22: Connection refused",
                           ""}) {
    INFO(line);
    CHECK(may_pass(ended(255, line)));
    CHECK_FALSE(may_pass(ended(255, line, true)));
  }
  CHECK(may_pass(ended(1, "error: pod b is not running")));
  CHECK_FALSE(may_pass(ended(127, "sh: muster: not found")));
  CHECK_FALSE(may_pass(ended(2, "muster: unknown option --remote-agent")));
  CHECK_FALSE(may_pass(ended(255, "me@b: Permission denied (publickey).")));
  CHECK_FALSE(may_pass(ended(255, "Host key verification failed.")));
  RshEnd killed = ended(0, "");
  killed.status.signaled = true;
  killed.status.value = 1;
  CHECK_FALSE(may_pass(killed));
}

TEST_CASE("rsh failure: delays grow up to a limit, and vary between hosts") {
  using std::chrono::milliseconds;
  CHECK(retry_delay(1, 0) == milliseconds(250));
  CHECK(retry_delay(1, 1) == milliseconds(750));
  CHECK(retry_delay(2, 0.5) == milliseconds(1000));
  CHECK(retry_delay(4, 0.5) == milliseconds(4000));
  CHECK(retry_delay(400, 0.5) == milliseconds(4000));
  for (const int failures : {1, 2, 3}) {
    std::set<int> tenths;
    for (std::size_t host = 0; host < 32; ++host) {
      const double spread = spread_of(host, failures);
      CHECK((spread >= 0 && spread < 1));
      tenths.insert(static_cast<int>(spread * 10));
    }
    CHECK(tenths.size() == 10);
  }
}

TEST_CASE("rsh failure: finds the last line that is not blank, and makes it printable") {
  CHECK(last_line_of("a\nb \r\n\n  \n") == "b");
  CHECK(last_line_of("") == "");
  CHECK(last_line_of("a\x1b[31mb") == "a [31mb");
  CHECK(last_line_of(std::string(1000, 'x')).size() == 300);
}
