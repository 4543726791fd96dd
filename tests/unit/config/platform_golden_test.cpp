// SPDX-License-Identifier: Apache-2.0
// Golden tests: each file in tests/fixtures/platforms contains an environment, captured or as
// documented by the platform, and the resulting plan. After an intended change,
// MUSTER_GOLDEN_WRITE=1 rewrites the lower halves; review the differences.
#include "config/options/explain.hpp"
#include "unit/config/launch.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace muster;

namespace {

constexpr std::string_view kDirective = "#! ";
constexpr std::string_view kMiddle = "---\n";

struct Fixture {
  std::filesystem::path path;
  std::string given;     // the upper half
  std::string expected;  // the lower half
  Launch launch;
};

void direct(const std::string& words, Fixture& fixture) {
  const auto space = words.find(' ');
  const std::string what = words.substr(0, space);
  std::string value = space == std::string::npos ? "" : words.substr(space + 1);
  if (what == "host") {
    fixture.launch.machine.name = value;
  } else if (what == "addresses") {
    fixture.launch.machine.addresses.clear();
    for (const std::string& address : split(value, ' ')) {
      fixture.launch.machine.addresses.push_back({"eth0", address});
    }
  } else if (what == "gpus") {
    fixture.launch.machine.gpus = {static_cast<int>(parse_int(value).value()), "as the test says"};
  } else if (what == "args") {
    fixture.launch.args = split(value, ' ');
  } else if (what == "program") {
    fixture.launch.program = split(value, ' ');
  } else if (what == "name") {
    fixture.launch.personality = personality_of(value);
  } else if (what == "file") {
    const auto end = value.find(' ');
    std::string text = value.substr(end + 1);
    std::ranges::replace(text, '|', '\n');
    fixture.launch.machine.texts.emplace(value.substr(0, end), std::move(text));
  } else {
    FAIL("no directive: " << words);
  }
}

Fixture read_fixture(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  const auto middle = all.find(kMiddle);
  REQUIRE(middle != std::string::npos);
  Fixture fixture{path, all.substr(0, middle), all.substr(middle + kMiddle.size()), {}};
  fixture.launch.machine.gpus = {0, "no GPU in /dev"};
  fixture.launch.machine.kinds["/app/run_ddp.py"] = FileKind::plain;
  for (const std::string& line : split(fixture.given, '\n')) {
    if (line.starts_with(kDirective)) {
      direct(line.substr(kDirective.size()), fixture);
    } else if (const auto equals = line.find('=');
               !line.starts_with('#') && equals != std::string::npos) {
      fixture.launch.variables.emplace(line.substr(0, equals), line.substr(equals + 1));
    }
  }
  return fixture;
}

// From --explain: the lines that a platform affects, without columns and defaults.
std::string explained(const LaunchConfig& config) {
  static const std::vector<std::string> kSaid{"found", "node", "ends", "problem"};
  static const std::vector<std::string> kSettings{"nnodes",
                                                  "node-rank",
                                                  "nproc-per-node",
                                                  "master-addr",
                                                  "master-port",
                                                  "rdzv-backend",
                                                  "rdzv-endpoint",
                                                  "rdzv-id",
                                                  "standalone"};
  std::string out;
  for (const std::string& line : split(describe_config(config, Explained::all), '\n')) {
    const std::string name = line.substr(0, line.find(' '));
    const auto origin = config.origins.find(name);
    const bool is_told = std::ranges::find(kSettings, name) != kSettings.end() &&
                         origin != config.origins.end() && origin->second != "default";
    if (is_told || std::ranges::find(kSaid, name) != kSaid.end()) {
      std::string words;
      for (std::string& word : split(line, ' ')) {
        words += word.empty() ? "" : (words.empty() ? "" : " ") + word;
      }
      out += words + "\n";
    }
  }
  if (config.rendezvous.is_host) {
    out += *config.rendezvous.is_host ? "hosts yes\n" : "hosts no\n";
  }
  if (config.task && config.task->has_own_gpu) {
    out += "sees one GPU: LOCAL_RANK 0\n";
  }
  return out;
}

std::string outcome(const Fixture& fixture) {
  Launch explain = fixture.launch;
  explain.args.insert(explain.args.begin(), "--explain");
  std::string out;
  if (const auto shown = explain.resolved()) {
    out += explained(shown->config);
    for (const std::string& warning : shown->warnings) {
      out += "warning " + warning + "\n";
    }
  }
  const auto launched = fixture.launch.resolved();
  if (!launched) {
    out += "refused " + launched.error().message + "\n";
  }
  return out;
}

bool may_write() {
  // No test sets variables in another thread. NOLINTNEXTLINE(concurrency-mt-unsafe)
  return std::getenv("MUSTER_GOLDEN_WRITE") != nullptr;
}

}  // namespace

TEST_CASE("platforms: each captured environment gives the plan in its file") {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(MUSTER_FIXTURES "/platforms")) {
    const Fixture fixture = read_fixture(entry.path());
    const std::string found = outcome(fixture);
    if (may_write()) {
      std::ofstream(fixture.path) << fixture.given << kMiddle << found;
    }
    INFO(entry.path().filename());
    CHECK(found == fixture.expected);
    ++count;
  }
  CHECK(count > 60);
}
