// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.hpp"
#include "rendezvous/wire/round_decoder.hpp"
#include "rendezvous/wire/round_encoder.hpp"
#include "rendezvous/wire/round_limits.hpp"
#include "round_samples.hpp"
#include "support/catch.hpp"
#include "support/seed.hpp"

#include <algorithm>
#include <set>

using namespace muster;
using namespace muster::testing;
using Side = RoundDecoder::Side;
using Status = RoundDecoder::Status;

namespace {

struct Decoded {
  std::vector<RoundMessage> messages;
  std::string fault;
  std::size_t left = 0;
};

Decoded decode(RoundDecoder decoder, std::string_view bytes, std::size_t piece) {
  Decoded out;
  std::string held;
  while (!bytes.empty()) {
    held.append(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    while (true) {
      RoundMessage message;
      std::size_t consumed = 0;
      const Status status = decoder.next(held, message, consumed);
      held.erase(0, consumed);
      if (status == Status::broken) {
        out.fault = decoder.fault();
        return out;
      }
      if (status == Status::introduced) {
        continue;
      }
      if (status != Status::message) {
        break;
      }
      out.messages.push_back(std::move(message));
    }
  }
  out.left = held.size();
  return out;
}

Decoded decode(Side side, std::string_view bytes) {
  return decode(RoundDecoder(side), bytes, bytes.size());
}

std::string head_of(std::uint8_t kind, std::uint32_t length) {
  std::string out;
  append_int(out, length);
  append_int(out, kind);
  return out;
}

std::string frame_of(const RoundMessage& message) {
  std::string out;
  REQUIRE(append_frame(out, message));
  return out;
}

std::string raw_frame(std::uint8_t kind, std::string_view body) {
  std::string out;
  append_int(out, static_cast<std::uint32_t>(body.size()));
  append_int(out, kind);
  return out.append(body);
}

// Behind what the side says first that connected, and that accepted.
std::string after_introduction(std::string_view bytes) {
  return round_introduction({.sealed = false, .job = "job"}).append(bytes);
}

std::string after_reply(std::string_view bytes) {
  return round_reply(RoundReply::plain).append(bytes);
}

// The one fault of a frame behind a reply, on a connection that we dialled.
std::string fault_of(std::string_view frame) {
  const Decoded decoded = decode(Side::dialled, after_reply(frame));
  CHECK(decoded.messages.empty());
  return decoded.fault;
}

// How many fields an aggregate has.
struct Any {
  template <class T>
  operator T() const;  // NOLINT(google-explicit-constructor): it stands for any field
};

template <class T, class... Found>
consteval std::size_t field_count() {
  if constexpr (requires { T{Found{}..., Any{}}; }) {
    return field_count<T, Found..., Any>();
  } else {
    return sizeof...(Found);
  }
}

constexpr std::uint8_t kHello = 1;
constexpr std::uint8_t kRefuse = 2;
constexpr std::uint8_t kWelcome = 3;
constexpr std::uint8_t kBeat = 6;
constexpr std::uint8_t kPong = 7;
constexpr std::uint8_t kReady = 8;
constexpr std::uint8_t kPropose = 10;
constexpr std::uint8_t kDetails = 14;
constexpr std::uint8_t kRegroup = 15;
constexpr std::uint8_t kClose = 20;
constexpr std::uint8_t kRounds = 22;

}  // namespace

TEST_CASE("round codec: every message comes back as it was, in any split") {
  std::string bytes;
  const auto samples = all_samples();
  CHECK(samples.size() == std::variant_size_v<RoundMessage>);
  for (const RoundMessage& sample : samples) {
    REQUIRE(append_frame(bytes, sample));
  }
  for (std::size_t piece = 1; piece <= bytes.size(); piece = piece < 40 ? piece + 1 : piece * 2) {
    for (const Side side : {Side::dialled, Side::accepted}) {
      const std::string all =
          side == Side::dialled ? after_reply(bytes) : after_introduction(bytes);
      const Decoded decoded = decode(RoundDecoder(side), all, piece);
      CAPTURE(piece, decoded.fault);
      REQUIRE(decoded.messages.size() == samples.size());
      CHECK(decoded.left == 0);
      for (std::size_t i = 0; i < samples.size(); ++i) {
        CAPTURE(i);
        CHECK(same(decoded.messages[i], samples[i]));
      }
    }
  }
}

TEST_CASE("round codec: no field is forgotten: who adds one adds it to round_fields.hpp and here") {
  CHECK(field_count<NodeInfo>() == 7);
  CHECK(field_count<JobTerms>() == 7);
  CHECK(field_count<LeaderOffer>() == 3);
  CHECK(field_count<Round>() == 3);
  CHECK(field_count<Introduction>() == 2);
  CHECK(field_count<Hello>() == 10);
  CHECK(field_count<Rounds>() == 3);
  CHECK(field_count<Beat>() == 2);
  CHECK(field_count<Ready>() == 1);
  CHECK(field_count<Accept>() == 4);
  CHECK(field_count<Failed>() == 9);
  CHECK(field_count<Details>() == 3);
  CHECK(field_count<Stopping>() == 1);
  CHECK(field_count<Finished>() == 1);
  CHECK(field_count<Leave>() == 2);
  CHECK(field_count<Welcome>() == 2);
  CHECK(field_count<Refuse>() == 2);
  CHECK(field_count<Redirect>() == 1);
  CHECK(field_count<Claim>() == 4);
  CHECK(field_count<Pong>() == 2);
  CHECK(field_count<RollCall>() == 5);
  CHECK(field_count<Propose>() == 2);
  CHECK(field_count<Start>() == 4);
  CHECK(field_count<Regroup>() == 2);
  CHECK(field_count<Dismiss>() == 0);
  CHECK(field_count<OtherFailure>() == 3);
  CHECK(field_count<Close>() == 9);
  CHECK(field_count<ShowRounds>() == 0);
  CHECK(field_count<StoreClient>() == 4);
  CHECK(field_count<Vouch>() == 4);
  CHECK(field_count<Vouched>() == 5);
  CHECK(field_count<Carry>() == 1);
}

TEST_CASE("round codec: every kind has a number of its own") {
  std::set<char> numbers;
  for (const RoundMessage& sample : all_samples()) {
    numbers.insert(frame_of(sample)[4]);
  }
  CHECK(numbers.size() == std::variant_size_v<RoundMessage>);
}

TEST_CASE("round codec: a cut frame waits, and each lost byte of its body is a fault") {
  for (const RoundMessage& sample : all_samples()) {
    const std::string frame = frame_of(sample);
    for (std::size_t size = 0; size < frame.size(); ++size) {
      const Decoded decoded = decode(Side::dialled, after_reply(frame.substr(0, size)));
      CHECK(decoded.messages.empty());
      CHECK(decoded.fault.empty());
      CHECK(decoded.left == size);
    }
    if (frame.size() > kFrameHeadBytes) {
      const std::string_view body = std::string_view(frame).substr(kFrameHeadBytes);
      const auto kind = static_cast<std::uint8_t>(frame[4]);
      CHECK_THAT(fault_of(raw_frame(kind, body.substr(0, body.size() - 1))),
                 Catch::Contains("ends too early") || Catch::Contains("nodes in"));
      CHECK_THAT(fault_of(raw_frame(kind, std::string(body) + "x")),
                 Catch::EndsWith("1 bytes follow its end"));
    }
  }
}

TEST_CASE("round codec: reserved ports are at most as many as the limit, and none is 0") {
  Start start;
  start.offer.ports.assign(kMaxLeaderPorts, 40001);
  CHECK(decode(Side::dialled, after_reply(frame_of(start))).messages.size() == 1);
  std::string body = frame_of(start).substr(kFrameHeadBytes);
  const std::size_t end = body.size() - 1;  // a flag follows
  const std::size_t count = end - (2 * std::size_t{kMaxLeaderPorts}) - sizeof(std::uint32_t);
  const auto kind = static_cast<std::uint8_t>(frame_of(start)[4]);
  std::string zero = body;
  zero.replace(end - 2, 2, 2, '\0');
  CHECK_THAT(fault_of(raw_frame(kind, zero)), Catch::EndsWith("a reserved port of 0"));
  body[count] = 1;  // 257 in all
  CHECK_THAT(fault_of(raw_frame(kind, body)), Catch::EndsWith("257 ports; the limit is 256"));
}

TEST_CASE("round codec: neighbours in a list share their beginnings") {
  auto round = std::make_shared<Round>();
  for (int i = 0; i < 1000; ++i) {
    NodeInfo node = sample_node(i % 200);
    node.name = "rack17-node" + std::to_string(1000 + i);
    round->members.push_back(node);
  }
  const std::string frame = frame_of(Propose{.round = round, .base = std::make_shared<Round>()});
  CHECK(frame.size() < 30 * round->members.size());
  RoundDecoder decoder(Side::dialled);
  decoder.allow_lists();
  const Decoded decoded = decode(decoder, after_reply(frame), frame.size());
  REQUIRE(decoded.messages.size() == 1);
  CHECK(*std::get<Propose>(decoded.messages[0]).round == *round);
}

TEST_CASE("round codec: what is no node is told apart by its first bytes") {
  for (const std::string_view hello : {"GET / HTTP/1.1\r\n", "\x16\x03\x01", "\xA7NOBODY", "x"}) {
    CHECK(decode(Side::accepted, hello).fault ==
          "not a node of muster: it does not begin with our greeting");
  }
  CHECK(decode(Side::accepted, std::string(kRoundMagic) + std::string(2, '\0')).fault ==
        "not a node of muster: version 0 of the protocol");
}

TEST_CASE("round codec: no first byte of ours is a request of the store") {
  CHECK(static_cast<std::uint8_t>(round_preamble()[0]) == kRoundDialect);
  CHECK(kRoundDialect >= 0x80);
}

TEST_CASE("round codec: whoever connects says Hello first") {
  CHECK(decode(Side::accepted, after_introduction(frame_of(Beat{}))).fault ==
        "its first message is Beat, not Hello");
  CHECK(decode(Side::dialled, after_reply(frame_of(Beat{}))).fault.empty());
}

TEST_CASE("round codec: who connected introduces itself, in any split, before its frames") {
  const Introduction theirs{.sealed = true, .job = "a job"};
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
  CHECK(decode(Side::accepted, std::string(round_preamble()) + std::string("\x02\x00\x00", 3))
            .fault == "its introduction: a flag of 2");
  CHECK(decode(Side::accepted, std::string(round_preamble()) + std::string("\x01\xff\xff", 3))
            .fault == "its introduction: a text of 65535 bytes; the limit is 4096");
}

TEST_CASE("round codec: who accepted replies, and after a refusal says Refuse and nothing else") {
  for (const RoundReply reply : {RoundReply::refused, RoundReply::plain, RoundReply::sealed}) {
    RoundDecoder decoder(Side::dialled);
    RoundMessage message;
    std::size_t consumed = 0;
    const std::string bytes = round_reply(reply);
    CHECK(decoder.next(bytes.substr(0, bytes.size() - 1), message, consumed) == Status::need_more);
    REQUIRE(decoder.next(bytes.substr(consumed), message, consumed) == Status::introduced);
    CHECK(decoder.reply() == reply);
  }
  CHECK(decode(Side::dialled, std::string(round_preamble()) + "\x03").fault ==
        "its reply: a choice of 3; the last one is 2");
  const Refuse refuse{.why = Refusal::wrong_token, .text = "no"};
  const Decoded refused = decode(Side::dialled, refuse_introduction(refuse));
  REQUIRE(refused.messages.size() == 1);
  CHECK(std::get<Refuse>(refused.messages[0]) == refuse);
  CHECK(decode(Side::dialled, round_reply(RoundReply::refused) + frame_of(Welcome{})).fault ==
        "it refuses, and says Welcome");
}

TEST_CASE("round codec: an unknown version is answered in a layout that never changes") {
  std::string theirs(kRoundMagic);
  append_int(theirs, std::uint16_t{7});
  theirs += "whatever frames look like there";
  RoundDecoder decoder(Side::accepted);
  RoundMessage message;
  std::size_t consumed = 0;
  REQUIRE(decoder.next(theirs, message, consumed) == Status::foreign);
  CHECK(decoder.version() == 7);

  const std::string answer = refuse_version(decoder.version());
  const std::string text =
      "version 7 of the protocol between nodes is not known here, only version 4: use the same "
      "muster on all nodes";
  std::string expected = "\xA7MUSTER";
  append_int(expected, std::uint16_t{4});
  append_int(expected, static_cast<std::uint32_t>(3 + text.size()));
  append_int(expected, kRefuse);
  append_int(expected, std::uint8_t{2});
  append_int(expected, static_cast<std::uint16_t>(text.size()));
  CHECK(answer == expected + text);
}

TEST_CASE("round codec: the Refuse of another version is understood, and nothing else of it") {
  std::string bytes(kRoundMagic);
  append_int(bytes, std::uint16_t{9});
  std::string body;
  append_int(body, std::uint8_t{200});  // a reason of the future
  append_int(body, std::uint16_t{4});
  body += "oldiand more fields";
  const Decoded refused = decode(Side::dialled, bytes + raw_frame(kRefuse, body));
  REQUIRE(refused.messages.size() == 1);
  CHECK(std::get<Refuse>(refused.messages[0]) ==
        Refuse{.why = Refusal::wrong_version, .text = "oldi"});
  CHECK(decode(Side::dialled, bytes + frame_of(Welcome{})).fault ==
        "it speaks version 9 of the protocol between nodes, this muster version 4: use the same "
        "muster on all nodes");
}

TEST_CASE("round codec: hostile lengths are refused when the head is there") {
  std::string head;
  append_int(head, std::uint32_t{0xFFFFFFFF});
  append_int(head, kBeat);
  CHECK(fault_of(head) == "a message Beat of 4294967295 bytes; the limit is 16384");
  head.back() = static_cast<char>(99);
  CHECK(fault_of(head) == "a message of the unknown kind 99");
}

TEST_CASE("round codec: whom we dialled may send long messages after its Welcome only") {
  const std::string too_long = " bytes; the limit is 16384";
  for (const auto& [kind, name] : {std::pair(kPropose, "Propose"), std::pair(kClose, "Close")}) {
    const std::string head = head_of(kind, kMaxShortBody + 1);
    CHECK(decode(Side::dialled, after_reply(head)).fault ==
          "a message " + std::string(name) + " of 16385" + too_long);
    const Decoded welcomed = decode(Side::dialled, after_reply(frame_of(Welcome{}) + head));
    CHECK(welcomed.fault.empty());
    CHECK(welcomed.left == head.size());
  }
  CHECK(
      decode(Side::dialled, after_reply(frame_of(Welcome{}) + head_of(kPropose, kMaxListsBody + 1)))
          .fault == "a message Propose of 16777217 bytes; the limit is 16777216");
}

TEST_CASE("round codec: who comes to us sends long messages when it is welcomed and asked") {
  RoundDecoder decoder(Side::accepted, 50'000);
  // After a Hello, which is itself short.
  const auto fault = [&decoder](std::uint8_t kind, std::uint32_t length) {
    const std::string bytes = frame_of(followers_samples().front()) + head_of(kind, length);
    return decode(decoder, after_introduction(bytes), 1UL << 20U).fault;
  };
  CHECK(fault(kDetails, kMaxShortBody).empty());
  CHECK(fault(kDetails, kMaxShortBody + 1) ==
        "a message Details of 16385 bytes; the limit is 16384");
  CHECK(fault(kRounds, kMaxShortBody + 1) == "a message Rounds of 16385 bytes; the limit is 16384");
  decoder.allow_texts();
  CHECK(fault(kDetails, kMaxTextsBody).empty());
  CHECK(fault(kRounds, kMaxShortBody + 1) == "a message Rounds of 16385 bytes; the limit is 16384");
  decoder.allow_lists();
  CHECK(fault(kRounds, 50'000).empty());
  CHECK(fault(kRounds, 50'001) == "a message Rounds of 50001 bytes; the limit is 50000");
  CHECK(fault(kDetails, kMaxTextsBody).empty());
}

TEST_CASE("round codec: the longest lists of a job fit into its limit, and hardly more") {
  auto round = std::make_shared<Round>();
  for (int i = 0; i < 50; ++i) {
    // No two neighbours begin alike.
    const char first = i % 2 == 0 ? 'a' : 'b';
    NodeInfo node = sample_node(i);
    node.name.assign(kMaxNameBytes, first);
    node.role.assign(kMaxNameBytes, first);
    node.address = i % 2 == 0 ? "10.0.0.1" : "fe80::1";
    round->members.push_back(node);
  }
  const std::uint32_t limit = max_lists_body(50);
  const std::string frame = frame_of(Rounds{.started = round, .accepted = round, .base = round});
  CHECK(frame.size() - kFrameHeadBytes <= limit);
  CHECK(frame.size() + 3 * 50 * kMaxAddressBytes > limit);
  CHECK(max_lists_body(2) == kMaxShortBody);
  CHECK(max_lists_body(INT32_MAX) == kMaxListsBody);
}

TEST_CASE("round codec: hostile values inside are refused in text") {
  std::string body;
  append_int(body, std::uint64_t{1});
  append_int(body, std::uint8_t{2});
  CHECK(fault_of(raw_frame(kPong, body)) == "a message Pong: a flag of 2");

  body.assign("\x05", 1);
  CHECK(fault_of(raw_frame(kHello, body)) == "a message Hello: a choice of 5; the last one is 2");

  body.clear();
  append_int(body, std::uint16_t{5000});
  CHECK(fault_of(raw_frame(kRegroup, body)) ==
        "a message Regroup: a text of 5000 bytes; the limit is 4096");

  body.clear();
  append_int(body, std::uint64_t{1});
  append_int(body, std::uint64_t{1});
  append_int(body, std::int32_t{0});
  append_int(body, std::uint32_t{65537});
  CHECK(fault_of(raw_frame(kPropose, body)) ==
        "a message Propose: a list of 65537 nodes; the limit is 65536");
  body.resize(body.size() - 4);
  append_int(body, std::uint32_t{65536});
  CHECK(fault_of(raw_frame(kPropose, body)) ==
        "a message Propose: a list of 65536 nodes in 0 bytes");
}

TEST_CASE("round codec: a node is called by numbers and by names that steer no terminal") {
  const auto fault = [](const NodeInfo& node) { return fault_of(frame_of(Redirect{node})); };
  NodeInfo node = sample_node(0);
  for (const char* bad : {"evil.example", "cafe", "127.0.0.1.example", "-1", "1.2.3.4%a"}) {
    node.address = bad;
    CHECK(fault(node) ==
          "a message Redirect: an address '" + node.address + "' that is not numeric");
  }
  node.address = "10.0.0.1";
  node.name = "a\x1b[2J";
  CHECK(fault(node) == "a message Redirect: a name with control characters");

  const Decoded cleaned =
      decode(Side::dialled, after_reply(frame_of(Regroup{"a\x1b[2J\nb\tc\x7f é"})));
  REQUIRE(cleaned.messages.size() == 1);
  CHECK(std::get<Regroup>(cleaned.messages[0]).reason == "a [2J b c  é");
}

TEST_CASE("round codec: what is out of range is moved into it by the sender") {
  NodeInfo node = sample_node(0);
  node.nproc = 0;
  node.node_rank = -7;
  node.name = std::string(300, 'n');
  Failed failed;
  failed.age = Duration(-5);
  failed.run_time = Duration::max();
  failed.text = std::string(kMaxTextBytes - 1, 'w') + "é";
  Close close;
  close.details = std::string(kMaxBlobBytes + 1, 'd');
  close.others.resize(kOtherFailuresMax + 5);
  RoundDecoder decoder(Side::dialled);
  decoder.allow_texts();
  const Decoded decoded =
      decode(decoder,
             after_reply(frame_of(Redirect{node}) + frame_of(failed) + frame_of(close) +
                         frame_of(Welcome{.coordinator = node, .lease = Duration(0)})),
             1UL << 20U);
  CHECK(decoded.fault.empty());
  REQUIRE(decoded.messages.size() == 4);
  const auto& redirect = std::get<Redirect>(decoded.messages[0]).coordinator;
  CHECK(redirect.nproc == 1);
  CHECK(redirect.node_rank == -1);
  CHECK(redirect.name == std::string(255, 'n'));
  CHECK(std::get<Failed>(decoded.messages[1]).age == Duration(0));
  CHECK(std::get<Failed>(decoded.messages[1]).run_time == kMaxDuration);
  CHECK(std::get<Failed>(decoded.messages[1]).text == std::string(kMaxTextBytes - 1, 'w'));
  CHECK(std::get<Close>(decoded.messages[2]).details.size() == kMaxBlobBytes);
  CHECK(std::get<Close>(decoded.messages[2]).others.size() == kOtherFailuresMax);
  CHECK(std::get<Welcome>(decoded.messages[3]).lease == kMinLease);
}

TEST_CASE("round codec: a list that is too long is not sent") {
  auto round = std::make_shared<Round>();
  round->members.resize(kMaxMembers + 1);
  std::string out = "before";
  const auto done = append_frame(out, Propose{.round = round, .base = std::make_shared<Round>()});
  REQUIRE_FALSE(done);
  CHECK(done.error().code == Errc::protocol);
  CHECK(out == "before");
  round->members.pop_back();
  const auto frame = encode_shared(Propose{.round = round, .base = std::make_shared<Round>()});
  REQUIRE(frame);
  RoundDecoder decoder(Side::dialled);
  decoder.allow_lists();
  CHECK(decode(decoder, after_reply(**frame), 1UL << 20U).messages.size() == 1);
}

TEST_CASE("round codec: damaged frames never do harm and give the same in every split", "[slow]") {
  const Seed seed;
  INFO(seed.describe());
  Dice dice(seed.value());
  std::string whole(round_preamble());
  for (const RoundMessage& sample : all_samples()) {
    REQUIRE(append_frame(whole, sample));
  }
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = whole;
    for (std::uint64_t changes = 1 + dice.below(4); changes > 0; --changes) {
      bytes[dice.below(bytes.size())] = static_cast<char>(dice.below(256));
    }
    const Decoded at_once = decode(Side::accepted, bytes);
    const Decoded in_pieces = decode(RoundDecoder(Side::accepted), bytes, 1 + dice.below(50));
    CHECK(at_once.fault == in_pieces.fault);
    REQUIRE(at_once.messages.size() == in_pieces.messages.size());
    for (std::size_t m = 0; m < at_once.messages.size(); ++m) {
      CHECK(same(at_once.messages[m], in_pieces.messages[m]));
    }
  }
}
