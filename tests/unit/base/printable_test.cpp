// SPDX-License-Identifier: Apache-2.0
#include "base/printable.hpp"

#include "support/catch.hpp"

#include <array>
#include <utility>

using namespace muster;

TEST_CASE("printable: removes control and direction characters, escapes invalid UTF-8") {
  using Row = std::pair<std::string_view, std::string_view>;
  for (const auto& [text, expected] : std::array<Row, 12>{{
           {"plain \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80",
            "plain \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80"},
           {"a\x1b[31mb\r\n\x07", "a[31mb"},
           {"a\xc2\x9b"
            "31mb",
            "a31mb"},
           {"a\xe2\x80\xae"
            "b",
            "ab"},
           {"tr\xe4"
            "iner.py",
            "tr\\xe4iner.py"},
           {"\xff\xfe", "\\xff\\xfe"},
           {"cut \xe2\x82", "cut \\xe2\\x82"},
           {"\xc0\xaf", "\\xc0\\xaf"},
           {"\xe0\x80\xaf", "\\xe0\\x80\\xaf"},
           {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
           {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},
           {"", ""},
       }}) {
    CHECK(printable(text) == expected);
  }
}

TEST_CASE("printable: text inside an error contains no tab") {
  CHECK(printable("a\tb\x1b[2J", 20) == "a\tb[2J");
  CHECK(printable_in_line("a\tb\x1b[2J", 20) == "a b[2J");
  CHECK(printable_in_line("a\tbcd", 3) == "a b...");
}

TEST_CASE("printable: distinct names stay distinct") {
  CHECK(printable("a\xe4") != printable("a\xf6"));
  CHECK(as_utf8("a\xe4\n") == "a\\xe4\n");
  CHECK(without_hidden_marks("a\xe4\xc2\x9b\n") == "a\\xe4\n");
}

TEST_CASE("printable: long text is cut between characters, and escapes count") {
  CHECK(printable("abcdef", 6) == "abcdef");
  CHECK(printable("abcdefg", 6) == "abcdef...");
  CHECK(printable("abcd\xe2\x82\xac!", 6) == "abcd...");
  CHECK(printable("\xff\xff\xff", 9) == "\\xff\\xff...");
}

TEST_CASE("printable: handles each line of several") {
  CHECK(printable_lines("a\x1b\nb\xff\n", 10) == "a\nb\\xff\n");
  CHECK(printable_lines("one\ntwo", 2) == "on...\ntw...");
  CHECK(printable_lines("", 2).empty());
}
