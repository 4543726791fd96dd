// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/store_encoder.hpp"

#include "support/catch.hpp"
#include "support/hex.hpp"

using namespace muster;
using muster::testing::from_hex;

TEST_CASE("store encoder: the greeting equals that of PyTorch's client") {
  std::string out;
  append_greeting(out, 0x04030201);
  CHECK(out == from_hex("00 CEF7853C 0D 01020304"));
}

TEST_CASE("store encoder: requests contain their fields in wire order") {
  std::string out;
  RequestWriter(out, Opcode::add).string("/k").number(-1);
  CHECK(out == from_hex("04 0200000000000000 2F6B FFFFFFFFFFFFFFFF"));
  out.clear();
  RequestWriter(out, Opcode::wait).keys({"/a", "/b"});
  CHECK(out == from_hex("06 0200000000000000 0200000000000000 2F61 0200000000000000 2F62"));
}

TEST_CASE("store encoder: the older dialect has different opcodes") {
  std::string out;
  RequestWriter(out, Opcode::set, Dialect::older).string("/k").string("v");
  CHECK(out == from_hex("00 0200000000000000 2F6B 0100000000000000 76"));
}
