// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"

#include "support/catch.hpp"

using namespace muster;

TEST_CASE("text: split keeps empty parts, and join reverses it") {
  CHECK(split("a,,b", ',') == std::vector<std::string>{"a", "", "b"});
  CHECK(split("", ',') == std::vector<std::string>{""});
  CHECK(join(split("x,y,", ','), ",") == "x,y,");
}

TEST_CASE("text: trim removes blanks from both ends only") {
  CHECK(trim(" \t a b\n") == "a b");
  CHECK(trim(" \n").empty());
}

TEST_CASE("text: parse_int accepts what Python's int accepts, and nothing else") {
  CHECK(parse_int(" 4 ") == 4);
  CHECK(parse_int("+4") == 4);
  CHECK(parse_int("-7") == -7);
  CHECK_FALSE(parse_int("+-4"));
  CHECK_FALSE(parse_int("4x"));
  CHECK_FALSE(parse_int(""));
  CHECK_FALSE(parse_int("+"));
  CHECK_FALSE(parse_int("99999999999999999999"));
}

TEST_CASE("text: edit distance counts an insertion, deletion, replacement or swap as one") {
  CHECK(edit_distance("nproc", "nproc") == 0);
  CHECK(edit_distance("nproc", "nprocs") == 1);
  CHECK(edit_distance("nporc", "nproc") == 1);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
}

TEST_CASE("text: shell quoting leaves plain words alone") {
  CHECK(shell_quoted("--lr=0.1") == "--lr=0.1");
  CHECK(shell_quoted("") == "''");
  CHECK(shell_quoted("it's") == "'it'\\''s'");
}

TEST_CASE("text: recognizes names of secrets in any case") {
  CHECK(names_a_secret("HF_TOKEN"));
  CHECK(names_a_secret("aws_secret_access"));
  CHECK(names_a_secret("API_KEY"));
  CHECK(names_a_secret("GPG_PASSPHRASE"));
  CHECK_FALSE(names_a_secret("RANK"));
}
