// SPDX-License-Identifier: Apache-2.0
#include "hang/report/findings_codec.hpp"

#include "base/bytes.hpp"
#include "support/catch.hpp"

#include <string>
#include <utility>
#include <vector>

namespace muster::hang {
namespace {

constexpr std::size_t kRoom = 65536;

Position position(std::size_t operations) {
  Position out{.group = "world, epoch 0", .rank = 3, .size = 4, .entered = 9};
  for (std::size_t i = 0; i < operations; ++i) {
    out.recent.push_back({.number = i, .what = "all_reduce sum f32[25]", .peer = -1, .age = 1});
    out.pending.push_back({.number = 1000 + i, .what = "send", .peer = 2, .age = 1ULL << 40U});
  }
  return out;
}

Evidence findings(int ranks, std::size_t operations) {
  Evidence out{.limit = 2.5, .progress = 7.25};
  out.gaps = {"no Python stacks"};
  for (int i = 0; i < ranks; ++i) {
    RankEvidence rank{.rank = 8 + i, .local_rank = i, .ended = i == 1, .quiet = 3.5};
    rank.lifeless = 4.5;
    rank.strong = i == 0;
    rank.own = OwnCause{.cause = Cause::blocked_io,
                        .reason = "blocked in I/O on /x",
                        .collective = "barrier",
                        .holder = 77,
                        .stack = {"f (a.py:1)", "g (a.py:2)"},
                        .holder_rank = 9,
                        .on_gpu = true};
    rank.positions.push_back(position(operations));
    out.ranks.push_back(std::move(rank));
  }
  return out;
}

WholeVerdict verdict() {
  WholeVerdict out;
  out.counts = true;
  out.acting_rank = 5;
  out.told_by = "a";
  out.verdict.cause = Cause::node_silent;
  out.verdict.ranks = {5, 6, 7, 3};
  out.verdict.reason = "its node is silent";
  out.verdict.nodes = {"b", "c"};
  Group group{.ranks = {0, 1, 2}, .cause = Cause::sleeps, .reason = "sleeps"};
  group.position = "in #1 barrier";
  group.stack = {"f (a.py:1)"};
  group.waits_for = {5, 7};
  group.nodes = {"a"};
  out.verdict.groups = {group};
  out.facts = {.quiet = 3, .limit = 2, .automatic = true, .action = OnHang::stop};
  out.facts.gaps = {"node 'b': is silent"};
  return out;
}

std::string fault_of(const std::string& bytes) {
  const auto decoded = decode_findings(bytes);
  return decoded ? "" : decoded.error().message;
}

}  // namespace

TEST_CASE("findings survive encoding and decoding") {
  const Evidence sent = findings(3, 2);
  const auto got = decode_findings(encode_findings(sent, kRoom));
  REQUIRE(got);
  CHECK(*got == sent);
  CHECK(decode_findings(encode_findings({}, kRoom)).value() == Evidence{});
}

TEST_CASE("a position without a rank in its group stays without one") {
  Evidence sent = findings(1, 1);
  sent.ranks[0].positions[0].rank = -1;
  CHECK(decode_findings(encode_findings(sent, kRoom)).value() == sent);
}

TEST_CASE("a verdict survives encoding and decoding") {
  const auto got = decode_verdict(encode_verdict(verdict(), kRoom));
  REQUIRE(got);
  CHECK(*got == verdict());
}

TEST_CASE("findings that do not fit lose details, then ranks") {
  const Evidence sent = findings(4, 64);
  const auto told = [&](std::size_t room) {
    const std::string bytes = encode_findings(sent, room);
    CHECK(bytes.size() <= room);
    auto got = decode_findings(bytes);
    REQUIRE(got);
    return *got;
  };
  CHECK(told(kRoom).ranks.at(3).positions.at(0).recent.size() == 16);
  CHECK(told(kRoom).ranks.at(3).positions.at(0).recent.back().number == 63);
  CHECK(told(kRoom).ranks.at(3).positions.at(0).pending.front().number == 1000);
  const Evidence less = told(3000);
  REQUIRE(less.ranks.size() == 4);
  CHECK(less.ranks[0].positions.at(0).recent.size() == 4);
  const Evidence least = told(1200);
  REQUIRE(least.ranks.size() == 4);
  CHECK(least.ranks[0].own->stack.empty());
  CHECK(least.ranks[0].own->cause == Cause::blocked_io);
  CHECK(told(600).ranks.size() == 2);
}

TEST_CASE("a verdict that does not fit loses its last groups") {
  WholeVerdict sent = verdict();
  sent.verdict.groups.assign(40, verdict().verdict.groups.front());
  const std::string bytes = encode_verdict(sent, 1000);
  CHECK(bytes.size() <= 1000);
  const auto got = decode_verdict(bytes);
  REQUIRE(got);
  CHECK(got->verdict.ranks == sent.verdict.ranks);
  CHECK_FALSE(got->verdict.groups.empty());
}

TEST_CASE("many ranks are encoded as a few spans") {
  WholeVerdict sent = verdict();
  sent.verdict.ranks.clear();
  for (int rank = 0; rank < 80'000; ++rank) {
    sent.verdict.ranks.push_back(rank == 7 ? 80'001 : rank);
  }
  const std::string bytes = encode_verdict(sent, kRoom);
  CHECK(bytes.size() < 1000);
  CHECK(decode_verdict(bytes)->verdict.ranks == sent.verdict.ranks);
}

TEST_CASE("many groups that wait for very many ranks are limited to what the decoder accepts") {
  constexpr int kRanks = 100'000;
  WholeVerdict sent = verdict();
  Group group = sent.verdict.groups.front();
  for (int rank = 0; rank < kRanks; ++rank) {
    group.waits_for.push_back(rank);
  }
  sent.verdict.groups.assign(40, group);
  const auto got = decode_verdict(encode_verdict(sent, kRoom));
  REQUIRE(got);
  REQUIRE(got->verdict.groups.size() == 40);
  CHECK(got->verdict.groups.front() == group);
  CHECK(got->verdict.groups.back().waits_for.empty());
}

TEST_CASE("truncated and overlong messages are refused") {
  const std::string whole = encode_findings(findings(2, 3), kRoom);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK_FALSE(decode_findings(whole.substr(0, size)));
  }
  CHECK(fault_of(whole.substr(0, 20)) == "findings of a node: truncated");
  CHECK(fault_of(whole + "x") == "findings of a node: trailing bytes");
  const std::string judged = encode_verdict(verdict(), kRoom);
  for (std::size_t size = 0; size < judged.size(); ++size) {
    CHECK_FALSE(decode_verdict(judged.substr(0, size)));
  }
}

TEST_CASE("values out of range are refused") {
  std::string bytes = encode_findings(findings(1, 0), kRoom);
  std::string bad = bytes;
  bad.replace(0, 8, 8, '\xff');  // a limit that is not a number
  CHECK_THAT(fault_of(bad), Catch::EndsWith("time out of range"));
  bad = bytes;
  bad[19] = '\x7f';  // the number of ranks
  CHECK_THAT(fault_of(bad), Catch::EndsWith(" entries; the limit is 4096"));
}

TEST_CASE("a few bytes cannot represent more ranks than a job has") {
  WholeVerdict sent;
  sent.verdict.ranks = {0};
  std::string bytes = encode_verdict(sent, kRoom);
  const std::size_t span = bytes.find(std::string("\x01\0\0\0\0\0\0\0\x01\0\0\0", 12));
  REQUIRE(span != std::string::npos);
  std::string count;
  append_int(count, std::int32_t{0x7fffffff});
  bytes.replace(span + 8, 4, count);
  const auto got = decode_verdict(bytes);
  REQUIRE_FALSE(got);
  CHECK(got.error().message == "a verdict: ranks out of range");
}

TEST_CASE("texts from other nodes cannot contain terminal control characters") {
  Evidence sent = findings(1, 0);
  sent.ranks[0].own->reason = "a\nb\x1b[1m";
  CHECK(decode_findings(encode_findings(sent, kRoom))->ranks[0].own->reason == "a b [1m");
}

}  // namespace muster::hang
