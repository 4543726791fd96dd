// SPDX-License-Identifier: Apache-2.0
// The frames between nodes; round_introduction_test.cpp tests what precedes them.
#include "rendezvous/wire/memory.hpp"
#include "rendezvous/wire/round_limits.hpp"
#include "round_bytes.hpp"
#include "round_samples.hpp"
#include "support/seed.hpp"

#include <algorithm>
#include <set>

using namespace muster;
using namespace muster::testing;

namespace {

std::string head_of(std::uint8_t kind, std::uint32_t length) {
  std::string out;
  append_int(out, length);
  append_int(out, kind);
  return out;
}

// The only error from a frame that follows a reply, on a connection that we opened.
std::string fault_of(std::string_view frame) {
  const Decoded decoded = decode(Side::dialled, after_reply(frame));
  CHECK(decoded.messages.empty());
  return decoded.fault;
}

// The number of fields in an aggregate.
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
constexpr std::uint8_t kBeat = 6;
constexpr std::uint8_t kPong = 7;
constexpr std::uint8_t kPropose = 10;
constexpr std::uint8_t kDetails = 14;
constexpr std::uint8_t kRegroup = 15;
constexpr std::uint8_t kClose = 20;
constexpr std::uint8_t kRounds = 22;

}  // namespace

TEST_CASE("round codec: every message survives encoding and decoding, in any split") {
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

TEST_CASE(
    "round codec: no field is missing; a new field must be added to round_fields.hpp and here") {
  CHECK(field_count<NodeInfo>() == 7);
  CHECK(field_count<JobTerms>() == 10);
  CHECK(field_count<LeaderOffer>() == 3);
  CHECK(field_count<Round>() == 4);
  CHECK(field_count<Inheritance>() == 4);
  CHECK(field_count<Memory>() == 6);
  CHECK(field_count<Introduction>() == 2);
  CHECK(field_count<Hello>() == 14);
  CHECK(field_count<Rounds>() == 3);
  CHECK(field_count<Beat>() == 2);
  CHECK(field_count<Ready>() == 1);
  CHECK(field_count<Accept>() == 4);
  CHECK(field_count<Failed>() == 10);
  CHECK(field_count<Details>() == 3);
  CHECK(field_count<Stopping>() == 1);
  CHECK(field_count<Finished>() == 1);
  CHECK(field_count<Leave>() == 3);
  CHECK(field_count<Welcome>() == 3);
  CHECK(field_count<Refuse>() == 2);
  CHECK(field_count<Redirect>() == 1);
  CHECK(field_count<Claim>() == 5);
  CHECK(field_count<Pong>() == 2);
  CHECK(field_count<RollCall>() == 5);
  CHECK(field_count<Propose>() == 2);
  CHECK(field_count<Start>() == 5);
  CHECK(field_count<Regroup>() == 3);
  CHECK(field_count<Dismiss>() == 1);
  CHECK(field_count<OtherFailure>() == 3);
  CHECK(field_count<Close>() == 9);
  CHECK(field_count<ShowRounds>() == 0);
  CHECK(field_count<StoreClient>() == 4);
  CHECK(field_count<Vouch>() == 4);
  CHECK(field_count<Vouched>() == 5);
  CHECK(field_count<Carry>() == 1);
  CHECK(field_count<Inquire>() == 4);
  CHECK(field_count<Look>() == 6);
  CHECK(field_count<Looked>() == 4);
  CHECK(field_count<Judged>() == 4);
  CHECK(field_count<WaitSum>() == 7);
  CHECK(field_count<Waited>() == 3);
  CHECK(field_count<Mends>() == 2);
  CHECK(field_count<Lacking>() == 9);
  CHECK(field_count<Mended>() == 2);
  CHECK(field_count<Mend>() == 7);
  CHECK(field_count<NoMend>() == 3);
}

TEST_CASE("round codec: every kind has its own number") {
  std::set<char> numbers;
  for (const RoundMessage& sample : all_samples()) {
    numbers.insert(frame_of(sample)[4]);
  }
  CHECK(numbers.size() == std::variant_size_v<RoundMessage>);
}

TEST_CASE("round codec: a truncated frame waits, and each missing byte of its body is a fault") {
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
                 Catch::Contains("truncated") || Catch::Contains("nodes in"));
      CHECK_THAT(fault_of(raw_frame(kind, std::string(body) + "x")),
                 Catch::EndsWith("1 trailing bytes"));
    }
  }
}

TEST_CASE("round codec: the number of reserved ports is limited, and no port is 0") {
  Start start;
  start.offer.ports.assign(kMaxLeaderPorts, 40001);
  CHECK(decode(Side::dialled, after_reply(frame_of(start))).messages.size() == 1);
  std::string body = frame_of(start).substr(kFrameHeadBytes);
  const std::size_t end = body.size() - 1;  // followed by a flag
  const std::size_t count = end - (2 * std::size_t{kMaxLeaderPorts}) - sizeof(std::uint32_t);
  const auto kind = static_cast<std::uint8_t>(frame_of(start)[4]);
  std::string zero = body;
  zero.replace(end - 2, 2, 2, '\0');
  CHECK_THAT(fault_of(raw_frame(kind, zero)), Catch::EndsWith("a reserved port 0"));
  body[count] = 1;  // 257 in all
  CHECK_THAT(fault_of(raw_frame(kind, body)), Catch::EndsWith("257 ports; the limit is 256"));
}

TEST_CASE("round codec: findings and verdicts have their own limits") {
  const Looked looked{.round = {}, .inquiry = 1, .findings = std::string(kMaxFindingsBytes, 'x')};
  const Decoded all = decode(Side::dialled, after_reply(frame_of(Welcome{}) + frame_of(looked)));
  REQUIRE(all.messages.size() == 2);
  CHECK(std::get<Looked>(all.messages[1]) == looked);

  const auto too_long = [](std::uint8_t kind, std::size_t size) {
    std::string body(24, '\0');  // round and inquiry
    append_int(body, static_cast<std::uint32_t>(size));
    return fault_of(raw_frame(kind, body));
  };
  CHECK(too_long(28, kMaxFindingsBytes + 1) ==
        "Looked message: evidence of 786433 bytes; the limit is 786432");
  CHECK(too_long(29, kMaxVerdictBytes + 1) ==
        "Judged message: evidence of 65537 bytes; the limit is 65536");
}

TEST_CASE("round codec: wait times are limited in number and value") {
  Waited waited{.round = {}, .at = kMaxDuration * 2, .sums = {}};
  const WaitSum longest{.rank = -3,
                        .tells_step = true,
                        .step = ~0ULL,
                        .group = std::string(1000, 'g'),
                        .operations = ~0ULL,
                        .waits = ~0ULL,
                        .waited = -std::chrono::seconds(1)};
  waited.sums.assign(kMaxWaitSums + 1, longest);
  const std::string frame = frame_of(waited);
  CHECK(frame.size() < kMaxTextsBody);
  RoundDecoder ours(Side::dialled);
  ours.allow_lists();
  const Decoded decoded = decode(ours, after_reply(frame), frame.size());
  REQUIRE(decoded.messages.size() == 1);
  const auto& heard = std::get<Waited>(decoded.messages[0]);
  CHECK(heard.at == kMaxDuration);
  REQUIRE(heard.sums.size() == kMaxWaitSums);
  CHECK(heard.sums[0].rank == 0);
  CHECK(heard.sums[0].waited == Duration::zero());
  CHECK(heard.sums[0].group.size() == kMaxNameBytes);

  std::string body(24, '\0');  // round and time
  append_int(body, static_cast<std::uint32_t>(kMaxWaitSums + 1));
  CHECK(fault_of(raw_frame(30, body)) ==
        "Waited message: a list of 2049 entries; the limit is 2048");
  const auto fault_with = [&](WaitSum sum, std::size_t at, char byte) {
    sum.group = "g";
    std::string one = frame_of(Waited{.round = {}, .at = {}, .sums = {sum}}).substr(5);
    one.at(28 + at) = byte;  // of the first sum
    return fault_of(raw_frame(30, one));
  };
  CHECK_THAT(fault_with({}, 3, '\xff'), Catch::Contains("Waited message: "));   // a negative rank
  CHECK_THAT(fault_with({}, 4, '\x02'), Catch::Contains("Waited message: "));   // no flag
  CHECK_THAT(fault_with({}, 15, '\n'), Catch::Contains("Waited message: "));    // in a name
  CHECK_THAT(fault_with({}, 39, '\x7f'), Catch::Contains("Waited message: "));  // 292 years
}

TEST_CASE("round codec: neighbours in a list share their prefixes") {
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

TEST_CASE("round codec: a false length is refused once the header has arrived") {
  std::string head;
  append_int(head, std::uint32_t{0xFFFFFFFF});
  append_int(head, kBeat);
  CHECK(fault_of(head) == "Beat message of 4294967295 bytes; the limit is 16384");
  head.back() = static_cast<char>(99);
  CHECK(fault_of(head) == "a message of unknown kind 99");
}

TEST_CASE(
    "round codec: a node to which we connected may send long messages only after its Welcome") {
  const std::string too_long = " bytes; the limit is 16384";
  for (const auto& [kind, name] : {std::pair(kPropose, "Propose"), std::pair(kClose, "Close")}) {
    const std::string head = head_of(kind, kMaxShortBody + 1);
    CHECK(decode(Side::dialled, after_reply(head)).fault ==
          std::string(name) + " message of 16385" + too_long);
    const Decoded welcomed = decode(Side::dialled, after_reply(frame_of(Welcome{}) + head));
    CHECK(welcomed.fault.empty());
    CHECK(welcomed.left == head.size());
  }
  CHECK(
      decode(Side::dialled, after_reply(frame_of(Welcome{}) + head_of(kPropose, kMaxListsBody + 1)))
          .fault == "Propose message of 16777217 bytes; the limit is 16777216");
}

TEST_CASE("round codec: an accepted node may send long messages once it is welcomed and queried") {
  RoundDecoder decoder(Side::accepted, 50'000);
  // After a Hello, which itself has a small limit.
  const auto fault = [&decoder](std::uint8_t kind, std::uint32_t length) {
    const std::string bytes = frame_of(followers_samples().front()) + head_of(kind, length);
    return decode(decoder, after_introduction(bytes), 1UL << 20U).fault;
  };
  CHECK(fault(kDetails, kMaxShortBody).empty());
  CHECK(fault(kDetails, kMaxShortBody + 1) == "Details message of 16385 bytes; the limit is 16384");
  CHECK(fault(kRounds, kMaxShortBody + 1) == "Rounds message of 16385 bytes; the limit is 16384");
  decoder.allow_texts();
  CHECK(fault(kDetails, kMaxTextsBody).empty());
  CHECK(fault(kRounds, kMaxShortBody + 1) == "Rounds message of 16385 bytes; the limit is 16384");
  decoder.allow_lists();
  CHECK(fault(kRounds, 50'000).empty());
  CHECK(fault(kRounds, 50'001) == "Rounds message of 50001 bytes; the limit is 50000");
  CHECK(fault(kDetails, kMaxTextsBody).empty());
}

TEST_CASE("round codec: the longest lists of a job fit into its limit, with little room left") {
  auto round = std::make_shared<Round>();
  for (int i = 0; i < 50; ++i) {
    // No two neighbours share a prefix.
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

TEST_CASE("round codec: invalid values inside a message are refused with the reason") {
  std::string body;
  append_int(body, std::uint64_t{1});
  append_int(body, std::uint8_t{2});
  CHECK(fault_of(raw_frame(kPong, body)) == "Pong message: invalid flag 2");

  body.assign("\x05", 1);
  CHECK(fault_of(raw_frame(kHello, body)) == "Hello message: invalid choice 5; the highest is 2");

  body.clear();
  append_int(body, std::uint16_t{5000});
  CHECK(fault_of(raw_frame(kRegroup, body)) ==
        "Regroup message: a string of 5000 bytes; the limit is 4096");

  body.clear();
  append_int(body, std::uint64_t{1});
  append_int(body, std::uint64_t{1});
  append_int(body, std::uint64_t{1});
  append_int(body, std::int32_t{0});
  append_int(body, std::uint32_t{65537});
  CHECK(fault_of(raw_frame(kPropose, body)) ==
        "Propose message: a list of 65537 nodes; the limit is 65536");
  body.resize(body.size() - 4);
  append_int(body, std::uint32_t{65536});
  CHECK(fault_of(raw_frame(kPropose, body)) == "Propose message: a list of 65536 nodes in 0 bytes");
}

TEST_CASE("round codec: a node's address is numeric, its name has no terminal control characters") {
  const auto fault = [](const NodeInfo& node) { return fault_of(frame_of(Redirect{node})); };
  NodeInfo node = sample_node(0);
  for (const char* bad : {"evil.example", "cafe", "127.0.0.1.example", "-1", "1.2.3.4%a"}) {
    node.address = bad;
    CHECK(fault(node) == "Redirect message: a non-numeric address '" + node.address + "'");
  }
  node.address = "10.0.0.1";
  node.name = "a\x1b[2J";
  CHECK(fault(node) == "Redirect message: a name with control characters");

  const Decoded cleaned =
      decode(Side::dialled, after_reply(frame_of(Regroup{"a\x1b[2J\nb\tc\x7f é"})));
  REQUIRE(cleaned.messages.size() == 1);
  CHECK(std::get<Regroup>(cleaned.messages[0]).reason == "a [2J b c  é");
}

TEST_CASE("round codec: the sender clamps values that are out of range") {
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

TEST_CASE("round codec: damaged frames are harmless, with the same result in every split",
          "[slow]") {
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

TEST_CASE("round codec: a record survives encoding and decoding, a truncated one is rejected") {
  const std::string key = GENERATE(std::string(), std::string(64, 'a'));
  const Memory memory{
      sample_round(9, 3), sample_round(10, 2), sample_round(0, 0), {1, 1ULL << 62U}, "n1-job", key};
  const auto bytes = encode_memory(memory);
  REQUIRE(bytes);
  const auto same = decode_memory(*bytes);
  REQUIRE(same);
  CHECK(*same->started == *memory.started);
  CHECK(*same->accepted == *memory.accepted);
  CHECK(*same->base == *memory.base);
  CHECK(same->ids == memory.ids);
  CHECK(same->owner == memory.owner);
  CHECK(same->job_key == key);
  for (std::size_t size = 0; size < bytes->size(); ++size) {
    CHECK_FALSE(decode_memory(std::string_view(*bytes).substr(0, size)));
  }
  for (std::size_t i = 0; i < bytes->size(); ++i) {
    std::string changed = *bytes;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    CHECK_FALSE(decode_memory(changed));
  }
  CHECK_FALSE(decode_memory(*bytes + "x"));
}

// Records of earlier releases have no such field.
TEST_CASE("round codec: a record without a job key ends before that field") {
  Memory memory{sample_round(9, 3), sample_round(0, 0), sample_round(0, 0), {1}, "n1-job"};
  const auto without = encode_memory(memory);
  memory.job_key = std::string(64, 'a');
  const auto with = encode_memory(memory);
  REQUIRE(without);
  REQUIRE(with);
  CHECK(with->substr(kMemoryHeadBytes).starts_with(without->substr(kMemoryHeadBytes)));
  const auto read = decode_memory(*without);
  REQUIRE(read);
  CHECK(read->owner == "n1-job");
  CHECK(read->job_key.empty());
}
