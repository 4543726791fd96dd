// SPDX-License-Identifier: Apache-2.0
#include "trust/token_source.hpp"

#include "support/catch.hpp"

using namespace muster;

namespace {

Environ with(std::map<std::string, std::string, std::less<>> variables) {
  return Environ(std::move(variables));
}

}  // namespace

TEST_CASE("token source: uses the first that exists") {
  const Environ home = with({{"HOME", "/home/u"}});
  TokenSource off{TokenFrom::nowhere, "", "--token=none"};
  off.is_off = true;
  CHECK(choose_token_source({.off = true, .file = "f"}, home) == off);
  CHECK(choose_token_source({.file = "f"}, home) == TokenSource{TokenFrom::file, "f", ""});
  TokenSource shared{TokenFrom::file, "f", ""};
  shared.is_shared = true;
  CHECK(choose_token_source({.file = "f,shared"}, home) == shared);
  CHECK(choose_token_source({}, home) ==
        TokenSource{TokenFrom::home, "/home/u/.config/muster/token", ""});
  CHECK(choose_token_source({}, with({{"HOME", "/home/u"}, {"XDG_CONFIG_HOME", "/c"}})).path ==
        "/c/muster/token");
  CHECK(choose_token_source({}, with({{"HOME", "/home/u"}, {"XDG_CONFIG_HOME", "c"}})).path ==
        "/home/u/.config/muster/token");
}

TEST_CASE("token source: without a home there is none, and a pod creates none") {
  CHECK(choose_token_source({}, with({})).from == TokenFrom::nowhere);
  CHECK(choose_token_source({}, with({})).why_none == "HOME is not set");
  CHECK(choose_token_source({}, with({{"HOME", "relative"}})).from == TokenFrom::nowhere);
  const auto pod =
      choose_token_source({}, with({{"HOME", "/root"}, {"KUBERNETES_SERVICE_HOST", "10.0.0.1"}}));
  CHECK(pod.from == TokenFrom::home);
  CHECK_FALSE(pod.why_not_made.empty());
  CHECK(choose_token_source({}, with({{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}})).why_not_made ==
        pod.why_not_made);
}

TEST_CASE("token source: MUNGE, where available, precedes the home and follows explicit options") {
  const Environ home = with({{"HOME", "/home/u"}});
  const auto beside = choose_token_source({.file = "", .has_munge = true}, home);
  CHECK(beside.munge == MungeUse::wanted);
  CHECK(beside.from == TokenFrom::home);
  CHECK(choose_token_source({.file = "f", .has_munge = true}, home).munge == MungeUse::none);
  CHECK(choose_token_source({.off = true, .file = "", .has_munge = true}, home).munge ==
        MungeUse::none);
  CHECK(choose_token_source({}, home).munge == MungeUse::none);
  for (const bool there : {true, false}) {
    const auto demanded =
        choose_token_source({.file = "", .munge = true, .has_munge = there}, home);
    CHECK(demanded.munge == MungeUse::demanded);
    CHECK(demanded.from == TokenFrom::nowhere);
    CHECK(describe(demanded) == "MUNGE");
  }
  CHECK(describe(beside) == "MUNGE, else /home/u/.config/muster/token");
}

TEST_CASE("token source: the source as shown by --explain") {
  CHECK(describe(TokenSource{}) == "none");
  CHECK(describe(TokenSource{TokenFrom::file, "/f", ""}) == "/f");
}
