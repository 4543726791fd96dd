// SPDX-License-Identifier: Apache-2.0
// muster-transcript FILE…: plays the script above the line "----" in each file, and compares what
// the nodes receive, send and do with the text below that line. MUSTER_REWRITE=1 rewrites that
// text; review the changes like code. Stage::perform defines the verbs.
#include "base/text.hpp"
#include "base/time.hpp"
#include "sim/nodes/nodes_world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace muster::sim;
using muster::Duration;

constexpr std::string_view kLine = "----\n";

std::vector<std::string> words_in(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    words.push_back(word);
  }
  return words;
}

Duration duration_of(const std::string& word) {
  return muster::parse_duration(word).value_or(Duration{});
}

class Stage {
 public:
  // False if there is no such verb.
  bool perform(const std::vector<std::string>& words);

  [[nodiscard]] std::string text() const {
    return text_ + (world_ ? world_->checkers().problem() : "no nodes");
  }

 private:
  void make_world(const std::vector<std::string>& words);
  void to_node(const std::string& verb, std::uint32_t place);
  void cut(const std::vector<std::string>& words);

  NodesOptions options_;
  Trace trace_;
  std::string text_;
  std::unique_ptr<NodesWorld> world_;
};

// nodes 3 min=2 max=3 restarts=1 last_call=30s
void Stage::make_world(const std::vector<std::string>& words) {
  options_ = quiet_options(static_cast<std::uint32_t>(std::stoul(words.at(1))));
  options_.latency_max = std::chrono::microseconds(50);
  for (std::size_t i = 2; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    const std::string name = words[i].substr(0, equals);
    const std::string value = words[i].substr(equals + 1);
    if (name == "last_call") {
      options_.last_call = duration_of(value);
      continue;
    }
    (name == "min"   ? options_.min
     : name == "max" ? options_.max
                     : options_.max_restarts) = std::stoi(value);
  }
  trace_.on = true;
  trace_.states = false;
  trace_.text = &text_;
  world_ = std::make_unique<NodesWorld>(options_, 1, trace_);
}

void Stage::to_node(const std::string& verb, std::uint32_t place) {
  const std::uint32_t agent = world_->places()[place].agent;
  if (verb == "start") {
    world_->start(place);
  } else if (verb == "kill") {
    world_->kill_agent(agent);
  } else if (verb == "lose") {
    world_->lose_machine(place);
  } else if (verb == "boot") {
    world_->boot(place);
  } else if (verb == "leave") {
    world_->leave(agent);
  } else if (verb == "fail") {
    world_->fail_worker(agent);
  } else if (verb == "finish") {
    world_->finish_workers(agent, Duration{});
  }
}

// cut 20s n0 n1: these cannot reach the others
void Stage::cut(const std::vector<std::string>& words) {
  std::vector<std::uint8_t> inside(options_.nodes);
  for (std::size_t i = 2; i < words.size(); ++i) {
    inside.at(std::stoul(words[i].substr(1))) = 1;
  }
  world_->cut(inside, false, duration_of(words.at(1)));
}

bool Stage::perform(const std::vector<std::string>& words) {
  static const std::vector<std::string> kNodeVerbs{
      "start", "kill", "lose", "boot", "leave", "fail", "finish"};
  if (words[0] == "nodes") {
    make_world(words);
  } else if (words[0] == "run") {
    world_->run_until(world_->now() + duration_of(words.at(1)));
  } else if (words[0] == "cut") {
    cut(words);
  } else if (std::find(kNodeVerbs.begin(), kNodeVerbs.end(), words[0]) != kNodeVerbs.end()) {
    for (std::size_t i = 1; i < words.size(); ++i) {
      to_node(words[0], static_cast<std::uint32_t>(std::stoul(words[i].substr(1))));
    }
  } else {
    return false;
  }
  return true;
}

std::optional<std::string> play(const std::string& script) {
  Stage stage;
  std::istringstream lines(script);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> words = words_in(line);
    if (!words.empty() && words[0][0] != '#' && !stage.perform(words)) {
      fmt::print("no such verb: {}\n", line);
      return std::nullopt;
    }
  }
  return stage.text();
}

// False if the text differs.
bool check(const std::string& path) {
  std::ifstream in(path);
  std::stringstream whole;
  whole << in.rdbuf();
  const std::string text = whole.str();
  const std::size_t line = text.find(kLine);
  const std::string script = text.substr(0, line);
  const auto output = play(script);
  if (!output) {
    return false;
  }
  const std::string now = script + std::string(kLine) + *output;
  if (now == text) {
    return true;
  }
  if (std::getenv("MUSTER_REWRITE") != nullptr) {
    std::ofstream(path) << now;
    return true;
  }
  const std::string seen = path + ".seen";
  const std::string name = seen.substr(seen.rfind('/') + 1);
  std::ofstream(name) << now;
  fmt::print("{} differs; what was seen is in {} (MUSTER_REWRITE=1 takes it over)\n", path, name);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  bool good = argc > 1;
  for (int i = 1; i < argc; ++i) {
    good = check(argv[i]) && good;
  }
  return good ? 0 : 1;
}
