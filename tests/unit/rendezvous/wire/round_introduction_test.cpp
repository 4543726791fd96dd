// SPDX-License-Identifier: Apache-2.0
// What two nodes send each other before their first frames.
#include "rendezvous/wire/round_limits.hpp"
#include "round_bytes.hpp"

using namespace muster;
using namespace muster::testing;

namespace {

constexpr std::uint8_t kRefuse = 2;

}  // namespace

TEST_CASE("round codec: recognizes by the first bytes that a peer is not a node") {
  for (const std::string_view hello : {"GET / HTTP/1.1\r\n", "\x16\x03\x01", "\xA7NOBODY", "x"}) {
    CHECK(decode(Side::accepted, hello).fault ==
          "not a muster node: its first bytes are not the preamble");
  }
  CHECK(decode(Side::accepted, std::string(kRoundMagic) + std::string(2, '\0')).fault ==
        "not a muster node: protocol version 0");
}

TEST_CASE("round codec: our first byte is not a store request") {
  CHECK(static_cast<std::uint8_t>(round_preamble()[0]) == kRoundDialect);
  CHECK(kRoundDialect >= 0x80);
}

TEST_CASE("round codec: the connecting side sends Hello first") {
  CHECK(decode(Side::accepted, after_introduction(frame_of(Beat{}))).fault ==
        "its first message is Beat, not Hello");
  CHECK(decode(Side::dialled, after_reply(frame_of(Beat{}))).fault.empty());
}

TEST_CASE("round codec: the connecting side introduces itself before its frames, in any split") {
  const Introduction theirs{.proofs = Proofs::token, .job = "a job"};
  const std::string bytes = round_introduction(theirs);
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    RoundDecoder decoder(Side::accepted);
    RoundMessage message;
    std::size_t consumed = 0;
    const Status status = decoder.next(bytes.substr(0, size), message, consumed);
    CHECK(status == (size == bytes.size() ? Status::introduced : Status::need_more));
    CHECK(consumed == (size == bytes.size() ? size : size < kPreambleBytes ? 0 : kPreambleBytes));
  }
  RoundDecoder decoder(Side::accepted);
  RoundMessage message;
  std::size_t consumed = 0;
  REQUIRE(decoder.next(bytes, message, consumed) == Status::introduced);
  CHECK(decoder.introduction() == theirs);
  CHECK(decode(Side::accepted, std::string(round_preamble()) + "\x02\x01").fault.empty());
  CHECK(decode(Side::accepted, std::string(round_preamble()) + std::string("\x10\x00\x00", 3))
            .fault == "its introduction: invalid choice 16; the highest is 15");
  CHECK(decode(Side::accepted, std::string(round_preamble()) + std::string("\x01\xff\xff", 3))
            .fault == "its introduction: a string of 65535 bytes; the limit is 4096");
}

TEST_CASE("round codec: the accepting side replies, and after a refusal sends only Refuse") {
  for (const RoundReply reply : {RoundReply::refused, RoundReply::plain, RoundReply::sealed}) {
    RoundDecoder decoder(Side::dialled);
    RoundMessage message;
    std::size_t consumed = 0;
    const std::string bytes = round_reply(reply);
    CHECK(decoder.next(bytes.substr(0, bytes.size() - 1), message, consumed) == Status::need_more);
    REQUIRE(decoder.next(bytes.substr(consumed), message, consumed) == Status::introduced);
    CHECK(decoder.reply() == reply);
  }
  CHECK(decode(Side::dialled, std::string(round_preamble()) + "\x06").fault ==
        "its reply: invalid choice 6; the highest is 5");
  const Refuse refuse{.why = Refusal::wrong_token, .text = "no"};
  const Decoded refused = decode(Side::dialled, refuse_introduction(refuse));
  REQUIRE(refused.messages.size() == 1);
  CHECK(std::get<Refuse>(refused.messages[0]) == refuse);
  CHECK(decode(Side::dialled, round_reply(RoundReply::refused) + frame_of(Welcome{})).fault ==
        "it refused the connection, but then sent Welcome");
}

TEST_CASE("round codec: a credential follows the reply, in any split") {
  const std::string bytes = round_credential("MUNGE:x:");
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    RoundDecoder decoder(Side::dialled);
    RoundMessage message;
    std::size_t consumed = 0;
    const Status status = decoder.next(bytes.substr(0, size), message, consumed);
    CHECK(status == (size == bytes.size() ? Status::introduced : Status::need_more));
    CHECK(decoder.credential() == (size == bytes.size() ? "MUNGE:x:" : ""));
    CHECK(consumed == (size == bytes.size() ? size : size < kPreambleBytes ? 0 : kPreambleBytes));
  }
  CHECK(decode(Side::dialled, std::string(round_preamble()) + "\x03\xff\xff").fault ==
        "its reply: a string of 65535 bytes; the limit is 4096");
  const std::string longest = round_credential(std::string(5000, 'x'));
  CHECK(longest.size() == kPreambleBytes + kReplyBytes + sizeof(std::uint16_t) + kMaxTextBytes);
}

TEST_CASE("round codec: the answer to an unknown version has a layout that never changes") {
  std::string theirs(kRoundMagic);
  append_int(theirs, std::uint16_t{99});
  theirs += "whatever frames look like there";
  RoundDecoder decoder(Side::accepted);
  RoundMessage message;
  std::size_t consumed = 0;
  REQUIRE(decoder.next(theirs, message, consumed) == Status::foreign);
  CHECK(decoder.version() == 99);

  const std::string answer = refuse_version(decoder.version());
  const std::string text =
      "version 99 of the node protocol is not supported here, only version 13: use the same "
      "muster on all nodes";
  std::string expected = "\xA7MUSTER";
  append_int(expected, kRoundVersion);
  append_int(expected, static_cast<std::uint32_t>(3 + text.size()));
  append_int(expected, kRefuse);
  append_int(expected, std::uint8_t{2});
  append_int(expected, static_cast<std::uint16_t>(text.size()));
  CHECK(answer == expected + text);
}

TEST_CASE("round codec: understands the Refuse of another version, and nothing else") {
  std::string bytes(kRoundMagic);
  append_int(bytes, std::uint16_t{99});
  std::string body;
  append_int(body, std::uint8_t{200});  // a reason from a future version
  append_int(body, std::uint16_t{4});
  body += "oldiand more fields";
  const Decoded refused = decode(Side::dialled, bytes + raw_frame(kRefuse, body));
  REQUIRE(refused.messages.size() == 1);
  CHECK(std::get<Refuse>(refused.messages[0]) ==
        Refuse{.why = Refusal::wrong_version, .text = "oldi"});
  CHECK(decode(Side::dialled, bytes + frame_of(Welcome{})).fault ==
        "it uses version 99 of the node protocol, but this muster uses version 13: use the same "
        "muster on all nodes");
}
