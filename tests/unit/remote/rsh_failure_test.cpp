// SPDX-License-Identifier: Apache-2.0
#include "remote/rsh_failure.hpp"

#include "support/catch.hpp"

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

TEST_CASE("rsh failure: one line with the command and its own last words") {
  CHECK(describe(ended(255, "ssh: no route")) ==
        "b cannot be reached by 'ssh -o 'X=a b' me@b': ssh: no route");
  CHECK(describe(ended(255, "")) ==
        "b cannot be reached by 'ssh -o 'X=a b' me@b': exited with code 255");
  CHECK(describe(ended(127, "sh: muster: not found")) ==
        "b: muster cannot be started there (ssh -o 'X=a b' me@b: sh: muster: not found); it has "
        "to be at the same path as here, or where --rsh-muster=PATH says");
  CHECK(describe(ended(255, "Connection reset", true)) ==
        "b: the connection broke (ssh -o 'X=a b' me@b: Connection reset)");
  CHECK(describe(ended(127, "", true)).find("the connection broke") != std::string::npos);
  RshEnd head = ended(255, "reset", true);
  head.behind = 7;
  CHECK(describe(head) == "b: the connection broke (ssh -o 'X=a b' me@b: reset); 7 more behind it");
}

TEST_CASE("rsh failure: the last line is one with something in it, and printable") {
  CHECK(last_line_of("a\nb \r\n\n  \n") == "b");
  CHECK(last_line_of("") == "");
  CHECK(last_line_of("a\x1b[31mb") == "a [31mb");
  CHECK(last_line_of(std::string(1000, 'x')).size() == 300);
}
