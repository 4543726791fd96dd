// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/store_decoder.hpp"

#include "rendezvous/wire/limits.hpp"
#include "rendezvous/wire/store_encoder.hpp"
#include "support/catch.hpp"
#include "support/hex.hpp"
#include "support/seed.hpp"

#include <string>
#include <vector>

using namespace muster;
using muster::testing::Dice;
using muster::testing::from_hex;
using muster::testing::Seed;
using Status = StoreDecoder::Status;

namespace {

std::string text_of(const Request& request) {
  std::string out(name_of(request.opcode));
  const RequestShape shape = shape_of(request.opcode);
  if (shape.counted) {
    std::string_view items = request.items;
    for (std::uint64_t i = 0; i < request.count * shape.strings; ++i) {
      out += " " + testing::to_hex(take_item(items));
    }
    CHECK(items.empty());
    return out;
  }
  out += shape.strings > 0 ? " " + testing::to_hex(request.key) : "";
  out += shape.strings > 1 ? " " + testing::to_hex(request.value) : "";
  out += shape.strings > 2 ? " " + testing::to_hex(request.desired) : "";
  out += shape.trailer_bytes > 0 ? " " + std::to_string(request.number) : "";
  return out;
}

// Feeds the pieces like a server, and returns the decoded requests, one per line.
std::vector<std::string> decode(const std::vector<std::string_view>& pieces) {
  StoreDecoder decoder;
  std::vector<std::string> out;
  std::string held;
  for (const std::string_view piece : pieces) {
    held += piece;
    while (true) {
      Request request;
      std::size_t consumed = 0;
      const Status status = decoder.next(held, request, consumed);
      if (status == Status::need_more) {
        break;
      }
      if (status == Status::broken) {
        out.push_back("broken: " + decoder.fault());
        return out;
      }
      out.push_back(text_of(request));
      held.erase(0, consumed);
    }
  }
  if (!held.empty()) {
    out.push_back("left: " + testing::to_hex(held));
  }
  return out;
}

// One request of every kind in the dialect.
std::string every_request(Dialect dialect) {
  std::string out;
  if (dialect == Dialect::current) {
    append_greeting(out, 77);
  }
  RequestWriter(out, Opcode::set, dialect).string("/k").string("v");
  RequestWriter(out, Opcode::compare_set, dialect).string("/k").string("").string("w");
  RequestWriter(out, Opcode::get, dialect).string("");
  RequestWriter(out, Opcode::add, dialect).string("init/").number(-2);
  RequestWriter(out, Opcode::check, dialect).keys({"/a"});
  RequestWriter(out, Opcode::wait, dialect).keys({"/a", "/bb"});
  RequestWriter(out, Opcode::get_num_keys, dialect);
  RequestWriter(out, Opcode::delete_key, dialect).string("/k");
  if (dialect == Dialect::older) {
    RequestWriter(out, Opcode::watch_key, dialect).string("/k");
    return out;
  }
  RequestWriter(out, Opcode::append).string("/k").string("x");
  RequestWriter(out, Opcode::multi_get).keys({});
  RequestWriter(out, Opcode::multi_set).number(2).string("/a").string("1").string("/b").string("");
  RequestWriter(out, Opcode::cancel_wait);
  RequestWriter(out, Opcode::queue_push).string("/q").string("e");
  RequestWriter(out, Opcode::queue_pop).string("/q");
  RequestWriter(out, Opcode::queue_len).string("/q");
  RequestWriter(out, Opcode::list_keys);
  RequestWriter(out, Opcode::barrier).string("/b").number(2);
  return out;
}

std::string fault_of(const std::string& bytes) {
  const auto lines = decode({bytes});
  return lines.empty() ? "" : lines.back();
}

// The bytes of VALIDATE.
std::string greeting() {
  return from_hex("00CEF7853C");
}

}  // namespace

TEST_CASE("store decoder: decodes every request of the current dialect") {
  const std::string all = every_request(Dialect::current);
  const auto lines = decode({all});
  CHECK(lines == std::vector<std::string>{"VALIDATE 1015412686",
                                          "PING 77",
                                          "SET 2F6B 76",
                                          "COMPARE_SET 2F6B  77",
                                          "GET ",
                                          "ADD 696E69742F -2",
                                          "CHECK 2F61",
                                          "WAIT 2F61 2F6262",
                                          "GETNUMKEYS",
                                          "DELETE_KEY 2F6B",
                                          "APPEND 2F6B 78",
                                          "MULTI_GET",
                                          "MULTI_SET 2F61 31 2F62 ",
                                          "CANCEL_WAIT",
                                          "QUEUE_PUSH 2F71 65",
                                          "QUEUE_POP 2F71",
                                          "QUEUE_LEN 2F71",
                                          "LIST_KEYS",
                                          "BARRIER 2F62 2"});
}

TEST_CASE("store decoder: decodes every request of the older dialect") {
  const auto lines = decode({every_request(Dialect::older)});
  CHECK(lines == std::vector<std::string>{"SET 2F6B 76",
                                          "COMPARE_SET 2F6B  77",
                                          "GET ",
                                          "ADD 696E69742F -2",
                                          "CHECK 2F61",
                                          "WAIT 2F61 2F6262",
                                          "GETNUMKEYS",
                                          "DELETE_KEY 2F6B",
                                          "WATCH_KEY 2F6B"});
}

TEST_CASE("store decoder: all splits into three pieces give the same requests", "[slow]") {
  for (const Dialect dialect : {Dialect::current, Dialect::older}) {
    const std::string all = every_request(dialect);
    const std::string_view view = all;
    const auto whole = decode({view});
    for (std::size_t i = 0; i <= view.size(); ++i) {
      for (std::size_t j = i; j <= view.size(); ++j) {
        if (decode({view.substr(0, i), view.substr(i, j - i), view.substr(j)}) != whole) {
          FAIL("split at " << i << " and " << j);
        }
      }
    }
  }
}

TEST_CASE("store decoder: single bytes give the same requests") {
  for (const Dialect dialect : {Dialect::current, Dialect::older}) {
    const std::string all = every_request(dialect);
    std::vector<std::string_view> pieces;
    for (std::size_t i = 0; i < all.size(); ++i) {
      pieces.push_back(std::string_view(all).substr(i, 1));
    }
    CHECK(decode(pieces) == decode({all}));
  }
}

TEST_CASE("store decoder: all subsets of cuts of a short conversation give the same requests") {
  std::string all = greeting();
  RequestWriter(all, Opcode::get).string("/");
  const auto whole = decode({all});
  const std::size_t cuts = all.size() - 1;
  for (std::uint64_t mask = 0; mask < (1ULL << cuts); ++mask) {
    std::vector<std::string_view> pieces;
    std::size_t from = 0;
    for (std::size_t at = 1; at <= all.size(); ++at) {
      if (at == all.size() || ((mask >> (at - 1)) & 1U) != 0) {
        pieces.push_back(std::string_view(all).substr(from, at - from));
        from = at;
      }
    }
    if (decode(pieces) != whole) {
      FAIL("cuts " << mask);
    }
  }
}

TEST_CASE("store decoder: random splits of random long conversations give the same requests",
          "[slow]") {
  const Seed seed;
  INFO(seed.describe());
  Dice dice(seed.value());
  for (int run = 0; run < 200; ++run) {
    std::string all = greeting();
    for (std::uint64_t i = 0; i < 20; ++i) {
      const std::string key = dice.bytes(dice.below(40));
      std::vector<std::string> keys(dice.below(30), key);
      RequestWriter(all, Opcode::set).string(key).string(dice.bytes(dice.below(3000)));
      RequestWriter(all, Opcode::wait).keys(keys);
      RequestWriter(all, Opcode::barrier).string(key).number(static_cast<std::int64_t>(i));
    }
    // Some end in garbage, which must fail at the same place with the same text.
    all += dice.below(2) == 0 ? "" : dice.bytes(64);
    std::vector<std::string_view> pieces;
    for (std::string_view left = all; !left.empty();) {
      const std::size_t size = std::min<std::size_t>(left.size(), 1 + dice.below(700));
      pieces.push_back(left.substr(0, size));
      left.remove_prefix(size);
    }
    REQUIRE(decode(pieces) == decode({all}));
  }
}

TEST_CASE("store decoder: accepts a length at the limit and refuses the next one") {
  std::string head = greeting();
  const auto with_lengths =
      [&](Opcode opcode, std::uint64_t key, std::optional<std::uint64_t> value) {
        std::string out = head + static_cast<char>(opcode);
        append_int(out, key);
        if (value) {
          out += std::string(key, 'k');
          append_int(out, *value);
        }
        return out;
      };
  CHECK(fault_of(with_lengths(Opcode::get, kMaxKeyBytes, {})).starts_with("left"));
  CHECK(fault_of(with_lengths(Opcode::get, kMaxKeyBytes + 1, {})) ==
        "broken: GET with a key of 8193 bytes; the limit is 8192");
  CHECK(fault_of(with_lengths(Opcode::set, 2, kMaxValueBytes)).starts_with("left"));
  CHECK(fault_of(with_lengths(Opcode::set, 2, kMaxValueBytes + 1)) ==
        "broken: SET with a value of 8388609 bytes; the limit is 8388608");
  CHECK(fault_of(with_lengths(Opcode::wait, kMaxKeyCount, {})).starts_with("left"));
  CHECK(fault_of(with_lengths(Opcode::wait, kMaxKeyCount + 1, {})) ==
        "broken: WAIT with 131073 keys; the limit is 131072");
  CHECK(fault_of(with_lengths(Opcode::multi_set, ~0ULL, {})).starts_with("broken: MULTI_SET with"));
}

TEST_CASE("store decoder: limits the size of a whole request") {
  std::string all = greeting();
  RequestWriter writer(all, Opcode::multi_set);
  writer.number(9);
  const std::string value(kMaxValueBytes, 'v');
  for (int i = 0; i < 9; ++i) {
    writer.string("/k").string(value);
  }
  CHECK(fault_of(all).starts_with("broken: a MULTI_SET request of"));
}

TEST_CASE("store decoder: recognizes by the first byte that a peer is not a store client") {
  CHECK(fault_of("GET / HTTP/1.1\r\n") == "broken: not a store client: its first byte is 71 ('G')");
  CHECK(fault_of("\xFF") == "broken: not a store client: its first byte is 255");
  // PING without VALIDATE.
  CHECK(fault_of("\x0D").starts_with("broken: not a store client"));
}

TEST_CASE("store decoder: unknown requests and a wrong second greeting are errors") {
  CHECK(fault_of(greeting() + "\x13") == "broken: unknown request number 19");
  CHECK(fault_of(greeting() + from_hex("00CEF7853D")) ==
        "broken: VALIDATE with a wrong magic number");
  std::string older;
  RequestWriter(older, Opcode::get_num_keys, Dialect::older);
  CHECK(fault_of(older + "\x09") == "broken: unknown request number 9");
}

TEST_CASE("store decoder: a wrong magic number is an impossible key length in the older dialect") {
  CHECK(fault_of(from_hex("00CEF7853D00000000")) ==
        "broken: SET with a key of 1032189902 bytes; the limit is 8192");
}
