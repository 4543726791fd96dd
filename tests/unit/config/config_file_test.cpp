// SPDX-License-Identifier: Apache-2.0
#include "config/files/config_file.hpp"

#include "base/text.hpp"
#include "support/catch.hpp"
#include "support/seed.hpp"

#include <algorithm>
#include <random>

using namespace muster;

namespace {

using Values = std::map<OptionId, std::string>;

const std::string kAdvice = "; the file must be TOML, with OPTION = VALUE lines and quoted strings";

Values values(const std::string& text) {
  const auto out = parse_config_file(text, "job.toml");
  INFO(text);
  if (!out) {
    FAIL(out.error().message);
  }
  return *out;
}

std::string error(const std::string& text) {
  const auto out = parse_config_file(text, "job.toml");
  INFO(text);
  REQUIRE_FALSE(out);
  CHECK(out.error().code == Errc::usage);
  return out.error().message;
}

constexpr std::string_view kGood =
    "# a job\n"
    "nnodes = \"2:4\"\n"
    "nproc_per_node = 4\n"
    "rdzv-conf = \"lease=2,join_timeout=9\"\n"
    "standalone = false\n"
    "local-ranks-filter = [0, 2]\n"
    "shutdown-timeout = 1.5\n"
    "role = 'trainer'\n";

}  // namespace

TEST_CASE("config file: values of every type, as they would be typed") {
  using enum OptionId;
  CHECK(values(std::string(kGood)) == Values{{nnodes, "2:4"},
                                             {nproc_per_node, "4"},
                                             {rdzv_conf, "lease=2,join_timeout=9"},
                                             {standalone, "false"},
                                             {local_ranks_filter, "0,2"},
                                             {shutdown_timeout, "1.5"},
                                             {role, "trainer"}});
  CHECK(values("").empty());
  CHECK(values("\xEF\xBB\xBFtee = 3\r\n").at(tee) == "3");
  CHECK(values("role = \"a\\tb\\u00e9\"\n").at(role) == "a\tb\u00e9");
  CHECK(values("role = \"\"\"\ntwo\nlines\"\"\"\n").at(role) == "two\nlines");
  CHECK(values("rdzv-conf = [\n  \"lease=2\", # two\n  \"join_delay=1\",\n]\n").at(rdzv_conf) ==
        "lease=2,join_delay=1");
}

TEST_CASE("config file: an error names file, line, option and remedy") {
  CHECK(error("tee = 3\n\nnproc = 2\n") ==
        "config file job.toml, line 3: 'nproc' is not an option that can be set here; did you mean "
        "nproc-per-node?");
  for (const char* other : {"help = true\n",
                            "config = \"x\"\n",
                            "accelerate-config = \"x\"\n",
                            "explain = \"plan\"\n"}) {
    CHECK(error(other).find("not an option that can be set here") != std::string::npos);
  }
  CHECK(error("role = \"a\"\nmax-restarts = [1, 2]\n") ==
        "config file job.toml, line 2: 'max-restarts' takes one value: write max-restarts = VALUE");
  CHECK(error("role = [[1]]\n").find("takes one value or a list of values") != std::string::npos);
  CHECK(error("role = 2024-01-01\n").find("takes one value") != std::string::npos);
  CHECK(error("[rdzv-conf]\nlease = 2\n").find("line 1: 'rdzv-conf' takes one") !=
        std::string::npos);
  CHECK(error("[launch]\ntee = 3\n").find("line 1: 'launch' is not an option") !=
        std::string::npos);
  CHECK(error("max-restarts = 1\nmax_restarts = 2\n") ==
        "config file job.toml, line 2: 'max-restarts' is set twice");
}

TEST_CASE("config file: rejects invalid TOML with its line") {
  for (const char* bad : {"tee = 3\nrole = trainer\n",
                          "tee = 3\nrole\n",
                          "tee = 3\ntee = 1\n",
                          "tee = 3\nrole = \"a\n",
                          "tee = 3\nrole = [}\n",
                          "tee = 3\nrole = {]\n",
                          "tee = 3\nrole = \"\xff\"\n"}) {
    const std::string message = error(bad);
    CHECK(message.starts_with("config file job.toml, line 2: "));
    CHECK(message.ends_with(kAdvice));
  }
}

TEST_CASE("config file: garbage yields values or one printable line, and never a crash") {
  using namespace std::string_view_literals;
  const testing::Seed seed;
  INFO(seed.describe());
  std::mt19937_64 random(seed.value());
  const std::string_view alphabet = "=[]{}\"'#.,:\\\n\r\t -_0x1e+aT\x1b\x00\xff\xc3"sv;
  const auto below = [&](std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random);
  };
  for (int i = 0; i < 5000; ++i) {
    std::string text(kGood);
    for (std::size_t changes = 1 + below(8); changes > 0; --changes) {
      const std::size_t at = below(text.size());
      switch (below(3)) {
        case 0:
          text[at] = alphabet[below(alphabet.size())];
          break;
        case 1:
          text.insert(at, 1 + below(3), alphabet[below(alphabet.size())]);
          break;
        default:
          text.erase(at, 1 + below(4));
      }
    }
    const auto out = parse_config_file(text, "job.toml");
    if (!out) {
      INFO(text);
      const std::string& message = out.error().message;
      CHECK(message.starts_with("config file job.toml, line "));
      CHECK(std::ranges::none_of(message, [](unsigned char c) { return c < ' ' || c == 0x7f; }));
    }
  }
  // Deep nesting causes an error, not a stack overflow.
  CHECK_FALSE(parse_config_file("role = " + std::string(100'000, '['), "job.toml"));
}
