// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/round/leader/quorum.hpp"

#include "support/catch.hpp"

#include <string_view>

namespace muster {
namespace {

// h: here, r: restarted, g: gone, m: missing.
std::vector<Standing> standings_of(std::string_view members) {
  std::vector<Standing> standings;
  for (const char c : members) {
    standings.push_back(c == 'h'   ? Standing::here
                        : c == 'r' ? Standing::heir
                        : c == 'g' ? Standing::gone
                                   : Standing::missing);
  }
  return standings;
}

bool quorum(std::string_view members) {
  return is_quorum(standings_of(members));
}

TimePoint at(int seconds) {
  return TimePoint(std::chrono::seconds(seconds));
}

}  // namespace

TEST_CASE("quorum: more than half, or half with the first, or no member missing") {
  CHECK(quorum(""));
  CHECK(quorum("h"));
  CHECK(quorum("hhm"));
  CHECK(quorum("mhh"));
  CHECK_FALSE(quorum("hmm"));
  CHECK(quorum("hm"));
  CHECK_FALSE(quorum("mh"));
  CHECK(quorum("hmmh"));
  CHECK_FALSE(quorum("mmhh"));
  CHECK(quorum("ggggh"));
}

TEST_CASE("quorum: restarted agents count, but not on their own") {
  CHECK(quorum("rr"));
  CHECK(quorum("rrh"));
  CHECK(quorum("rhm"));
  CHECK(quorum("rmmh"));
  CHECK_FALSE(quorum("rrm"));
  CHECK_FALSE(quorum("rm"));
  CHECK_FALSE(quorum("rg"));
  CHECK_FALSE(quorum("gg"));
}

// Each side may know less about a member than is true: a member that is alive on the other side is
// missing here, and one that was restarted there may be known to be gone here.
TEST_CASE("quorum: with restarted agents at most one of two sides has it") {
  const std::string_view left = "hmrgggmmrm";
  const std::string_view right = "mhgrgmrgmm";
  for (int count = 1; count <= 5; ++count) {
    int sides = 1;
    for (int i = 0; i < count; ++i) {
      sides *= static_cast<int>(left.size());
    }
    for (int split = 0; split < sides; ++split) {
      std::string one;
      std::string other;
      for (int i = 0, rest = split; i < count; ++i, rest /= static_cast<int>(left.size())) {
        const auto who = static_cast<std::size_t>(rest) % left.size();
        one += left[who];
        other += right[who];
      }
      INFO(one << " and " << other);
      REQUIRE_FALSE((quorum(one) && quorum(other)));
    }
  }
}

TEST_CASE("quorum: a dead member still counts in the total, because it may have known more") {
  CHECK_FALSE(quorum("hmg"));
  CHECK_FALSE(quorum("ghm"));
  CHECK_FALSE(quorum("gghhm"));
  CHECK(quorum("hhgm"));
}

TEST_CASE("quorum: at most one of two disjoint sides has it") {
  for (int count = 1; count <= 8; ++count) {
    int sides = 1;
    for (int i = 0; i < count; ++i) {
      sides *= 3;
    }
    for (int split = 0; split < sides; ++split) {
      std::vector<Standing> left;
      std::vector<Standing> right;
      for (int i = 0, rest = split; i < count; ++i, rest /= 3) {
        const int who = rest % 3;  // 2: gone, both may know it
        left.push_back(who == 0 ? Standing::here : who == 1 ? Standing::missing : Standing::gone);
        right.push_back(who == 1 ? Standing::here : who == 0 ? Standing::missing : Standing::gone);
      }
      const auto is_here = [](Standing standing) { return standing == Standing::here; };
      if (std::ranges::any_of(left, is_here) && std::ranges::any_of(right, is_here)) {
        REQUIRE_FALSE((is_quorum(left) && is_quorum(right)));
      }
    }
  }
}

TEST_CASE("quorum time: the latest time at which the members in contact were a quorum") {
  const auto heard = [](int seconds) { return MemberEvidence{false, at(seconds)}; };
  const MemberEvidence gone{true, std::nullopt};
  const MemberEvidence never{};
  CHECK(quorum_time({heard(5)}) == at(5));
  CHECK(quorum_time({heard(9), heard(5), heard(7)}) == at(7));
  CHECK(quorum_time({heard(9), heard(5)}) == at(9));  // half, including the first
  CHECK(quorum_time({heard(5), heard(9)}) == at(5));  // the second alone is not enough
  CHECK(quorum_time({heard(9), never, never}) == std::nullopt);
  CHECK(quorum_time({heard(9), gone, gone}) == at(9));
  CHECK(quorum_time({heard(9), gone, never}) == std::nullopt);
  CHECK(quorum_time({heard(8), heard(9), heard(1), heard(2)}) == at(8));
  CHECK(quorum_time({heard(1), heard(9), heard(8), heard(2)}) == at(2));
  CHECK(quorum_time({}) == TimePoint::max());
  CHECK(quorum_time({gone, gone}) == std::nullopt);
}

TEST_CASE("quorum time: restarted agents count up to a member that was not restarted") {
  const auto heard = [](int seconds) { return MemberEvidence{false, at(seconds)}; };
  const auto heir = [](int seconds) { return MemberEvidence{false, at(seconds), true}; };
  const MemberEvidence gone{true, std::nullopt};
  const MemberEvidence never{};
  CHECK(quorum_time({heir(9), heir(5)}) == at(5));
  CHECK(quorum_time({heir(9), heard(5), never}) == at(5));
  CHECK(quorum_time({heir(7), heard(9), never}) == at(7));
  CHECK(quorum_time({heir(9), heir(8), heard(5), never}) == at(5));
  CHECK(quorum_time({heir(9), heir(8), never}) == std::nullopt);
  CHECK(quorum_time({heir(9), never}) == std::nullopt);
  CHECK(quorum_time({heir(9), gone}) == std::nullopt);
}

}  // namespace muster
