// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/store_messages.hpp"

#include "rendezvous/wire/store_encoder.hpp"
#include "support/catch.hpp"

using namespace muster;

TEST_CASE("store messages: opcodes of the current dialect are 0 to 18") {
  for (int byte = 0; byte < 256; ++byte) {
    const auto opcode = opcode_from_wire(static_cast<std::uint8_t>(byte), Dialect::current);
    CHECK(opcode.has_value() == (byte <= 18));
    if (opcode) {
      CHECK(static_cast<int>(*opcode) == byte);
      CHECK(opcode_to_wire(*opcode, Dialect::current) == byte);
    }
  }
}

TEST_CASE("store messages: opcodes of the older dialect are 0 to 8 and shifted") {
  CHECK(opcode_from_wire(0, Dialect::older) == Opcode::set);
  CHECK(opcode_from_wire(3, Dialect::older) == Opcode::add);
  CHECK(opcode_from_wire(7, Dialect::older) == Opcode::watch_key);
  CHECK(opcode_from_wire(8, Dialect::older) == Opcode::delete_key);
  for (int byte = 0; byte < 256; ++byte) {
    const auto opcode = opcode_from_wire(static_cast<std::uint8_t>(byte), Dialect::older);
    CHECK(opcode.has_value() == (byte <= 8));
    if (opcode) {
      CHECK(opcode_to_wire(*opcode, Dialect::older) == byte);
    }
  }
  CHECK_FALSE(opcode_to_wire(Opcode::ping, Dialect::older));
  CHECK_FALSE(opcode_to_wire(Opcode::watch_key, Dialect::current));
}

TEST_CASE("store messages: items are consumed one by one") {
  std::string items;
  append_bytes(items, "/a");
  append_bytes(items, "");
  append_bytes(items, std::string("\0x", 2));
  std::string_view left = items;
  CHECK(take_item(left) == "/a");
  CHECK(take_item(left).empty());
  CHECK(take_item(left) == std::string("\0x", 2));
  CHECK(left.empty());
}

TEST_CASE("store messages: every opcode has a name and a shape") {
  CHECK(name_of(Opcode::validate) == "VALIDATE");
  CHECK(name_of(Opcode::barrier) == "BARRIER");
  CHECK(name_of(Opcode::watch_key) == "WATCH_KEY");
  CHECK(shape_of(Opcode::compare_set).strings == 3);
  CHECK(shape_of(Opcode::multi_set).counted);
  CHECK(shape_of(Opcode::add).trailer_bytes == 8);
}
