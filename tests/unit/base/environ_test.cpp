// SPDX-License-Identifier: Apache-2.0
#include "base/environ.hpp"

#include "support/catch.hpp"

using namespace muster;

TEST_CASE("environ: parses an environment block and writes it back sorted by name") {
  const char* block[] = {"B=2", "A=1=x", "EMPTY=", "rubbish", nullptr};
  const auto environ_now = Environ::from_block(block);
  CHECK(environ_now.get("A") == "1=x");
  CHECK(environ_now.get("EMPTY") == "");
  CHECK_FALSE(environ_now.get("rubbish"));
  CHECK(environ_now.to_block() == std::vector<std::string>{"A=1=x", "B=2", "EMPTY="});
}

TEST_CASE("environ: set replaces and erase removes") {
  Environ changed;
  changed.set("RANK", "0");
  changed.set("RANK", "1");
  CHECK(changed.get("RANK") == "1");
  changed.erase("RANK");
  changed.erase("RANK");
  CHECK_FALSE(changed.get("RANK"));
}
