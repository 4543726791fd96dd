// SPDX-License-Identifier: Apache-2.0
// Replays the captures against ServerCore, whole and in small pieces. The answers must equal those
// of PyTorch's own server, byte for byte.
#include "rendezvous/server/server_core.hpp"
#include "support/catch.hpp"
#include "support/hex.hpp"
#include "support/seed.hpp"

#include <filesystem>
#include <fstream>
#include <map>

using namespace muster;

namespace {

struct Line {
  char connection = 'a';
  bool from_client = false;
  bool close = false;
  std::string bytes;
};

std::vector<Line> read_capture(const std::filesystem::path& path) {
  std::vector<Line> lines;
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) {
    if (text.starts_with('#')) {
      continue;
    }
    const bool close = text.substr(3) == "close";
    lines.push_back(
        {text[0], text[1] == '>', close, close ? "" : testing::from_hex(text.substr(3))});
  }
  return lines;
}

class Replay {
 public:
  explicit Replay(std::uint64_t piece_seed) : dice_(piece_seed) {}

  void run(const std::vector<Line>& lines, bool in_pieces) {
    for (const Line& line : lines) {
      if (!sessions_.contains(line.connection)) {
        sessions_[line.connection] = core_.open();
      }
      if (line.close) {
        collect();
        core_.forget(sessions_[line.connection]);
        sessions_.erase(line.connection);
      } else if (line.from_client) {
        feed(sessions_[line.connection], line.bytes, in_pieces);
      } else {
        collect();
        take(line.connection, line.bytes);
      }
    }
    collect();
    for (const auto& [connection, left] : answers_) {
      CHECK(testing::to_hex(left).empty());
    }
    CHECK(core_.held_bytes() == 0);
  }

 private:
  void feed(SessionId id, std::string_view bytes, bool in_pieces) {
    while (!bytes.empty()) {
      const std::size_t size =
          in_pieces ? std::min<std::size_t>(bytes.size(), 1 + dice_.below(9)) : bytes.size();
      core_.receive(id, bytes.substr(0, size));
      bytes.remove_prefix(size);
    }
  }

  void collect() {
    for (const auto& [connection, id] : sessions_) {
      REQUIRE(core_.closing(id).empty());
      answers_[connection] += core_.output(id);
      core_.sent(id, core_.output(id).size());
    }
  }

  void take(char connection, const std::string& expected) {
    std::string& got = answers_[connection];
    REQUIRE(testing::to_hex(got.substr(0, expected.size())) == testing::to_hex(expected));
    got.erase(0, expected.size());
  }

  ServerCore core_;
  testing::Dice dice_;
  std::map<char, SessionId> sessions_;
  std::map<char, std::string> answers_;
};

std::vector<std::filesystem::path> captures() {
  std::vector<std::filesystem::path> out;
  for (const auto& entry : std::filesystem::directory_iterator(CAPTURES)) {
    out.push_back(entry.path());
  }
  return out;
}

}  // namespace

TEST_CASE("conformance: captured clients get the answers of PyTorch's server") {
  REQUIRE(captures().size() >= 5);
  for (const auto& path : captures()) {
    INFO(path.filename());
    const auto lines = read_capture(path);
    REQUIRE(lines.size() > 20);
    Replay(1).run(lines, false);
  }
}

TEST_CASE("conformance: captured clients get the same answers however their bytes are split") {
  const testing::Seed seed;
  INFO(seed.describe());
  for (const auto& path : captures()) {
    INFO(path.filename());
    const auto lines = read_capture(path);
    for (std::uint64_t run = 0; run < 20; ++run) {
      Replay(seed.value() + run).run(lines, true);
    }
  }
}
