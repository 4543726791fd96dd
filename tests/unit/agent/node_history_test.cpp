// SPDX-License-Identifier: Apache-2.0
#include "agent/failures/node_history.hpp"

#include "agent/failures/judgement.hpp"
#include "agent/sinks/node_history_file.hpp"
#include "agent/workers/files.hpp"
#include "support/catch.hpp"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace muster {
namespace {

constexpr double kNow = 1796029200;  // 2026-11-30T09:00:00Z
constexpr double kDay = 24 * 3600;

class TestFolder {
 public:
  TestFolder() : path_(std::filesystem::temp_directory_path() / "muster-history-XXXXXX") {
    REQUIRE(::mkdtemp(path_.data()) != nullptr);
  }

  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  ~TestFolder() { std::filesystem::remove_all(path_); }

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Heard final : EventSink {
  std::vector<std::string> lines;

  void take(const JobEvent& event) override {
    if (const auto* said = std::get_if<event::Message>(&event.what)) {
      lines.push_back(said->text);
    }
  }
};

struct Site {
  explicit Site(std::string path) {
    setup.config.node_history = std::move(path);
    setup.config.rdzv_id = "job7";
    setup.hostname = "node7";
    events.add(heard);
    events.add(file);
  }

  AgentSetup setup;
  EventStream events{"node1", [] { return kNow; }};
  Heard heard;
  NodeHistoryFile file{setup, events};
};

SuspectedNode suspect(const std::string& node) {
  return {node, "hardware", "twice", true};
}

}  // namespace

TEST_CASE("node history: a line is readable, and read as the same entry") {
  const HistoryEntry entry{kNow, "node7", "job \"7\"\n", "hardware"};
  const std::string line = history_line(entry);
  CHECK(line ==
        "{\"v\":1,\"time\":1796029200,\"date\":\"2026-11-30T09:00:00Z\",\"node\":\"node7\","
        "\"run\":\"job \\\"7\\\"\\n\",\"cause\":\"hardware\"}\n");
  const NodeHistory history = parse_history(line + line);
  CHECK(history.entries == std::vector{entry, entry});
  CHECK(history.unreadable == 0);
}

TEST_CASE("node history: lines without an entry of this version are counted and skipped") {
  const NodeHistory history = parse_history(
      "\n{\"v\":1,\"time\":\"x\",\"node\":\"a\"}\n{\"v\":2,\"time\":1,\"node\":\"a\"}\n[]\nfoo\n"
      "{\"v\":1,\"time\":1,\"node\":\"\"}\n" +
      history_line({kNow, "a", "", ""}) + "{\"v\":1,\"ti");
  CHECK(history.entries.size() == 1);
  CHECK(history.unreadable == 6);
}

TEST_CASE("node history: recent entries about a host count, with or without its domain") {
  const NodeHistory history{{{kNow - 1, "node7.cluster", "a", ""},
                             {kNow - 3 * kDay, "NODE7", "b", ""},
                             {kNow - 8 * kDay, "node7", "c", ""},
                             {kNow + kDay, "node7", "d", ""},
                             {kNow, "node70", "e", ""}}};
  const auto found = entries_of(history, "node7", kNow);
  REQUIRE(found.size() == 2);
  CHECK(found[0].run == "b");
  CHECK(found[1].run == "a");
}

TEST_CASE("node history: a file that is too long keeps its newest whole lines") {
  std::string text;
  for (int i = 0; text.size() <= kHistoryBytesMax; ++i) {
    text += history_line({kNow, "node" + std::to_string(i), "", ""});
  }
  const std::string_view half = newest_half(text);
  CHECK(half.size() <= kHistoryBytesMax / 2);
  CHECK(half.size() > kHistoryBytesMax / 2 - 200);
  CHECK(parse_history(half).unreadable == 0);
  CHECK(text.ends_with(half));
}

TEST_CASE("node history: a suspected node is a last resort in the next job") {
  const TestFolder folder;
  Site job(folder.path() + "/nodes");
  CHECK(job.file.reserve_here(kNow) == Duration{});
  job.events.tell(suspect("node7"));
  job.events.tell(suspect("node8"));
  CHECK(job.file.reserve_here(kNow + kDay) == std::chrono::hours(6 * 24));
  CHECK(job.file.reserve_here(kNow + 7 * kDay) == Duration{});
  REQUIRE(job.heard.lines.size() == 1);
  CHECK(job.heard.lines[0] == "this node is a last resort: '" + folder.path() +
                                  "/nodes' lists it 1 time (last run: job7, cause: hardware)");
}

TEST_CASE("node history: a broken or unreadable file causes one warning") {
  const TestFolder folder;
  const std::string path = folder.path() + "/nodes";
  REQUIRE(write_file(path, "garbage\n" + history_line({kNow, "node7", "job7", "signal"})));
  Site broken(path);
  CHECK(broken.file.reserve_here(kNow) == std::chrono::hours(7 * 24));
  CHECK(broken.heard.lines[0] ==
        "--node-history: ignoring 1 line without an entry in '" + path + "'");
  Site missing(folder.path() + "/absent/nodes");
  CHECK(missing.file.reserve_here(kNow) == Duration{});
  CHECK(missing.heard.lines.empty());
  missing.events.tell(suspect("node7"));
  missing.events.tell(suspect("node7"));
  CHECK(missing.heard.lines ==
        std::vector{"--node-history: cannot write '" + folder.path() +
                    "/absent/nodes': No such file or directory; continuing without it"});
  Site directory(folder.path());
  CHECK(directory.file.reserve_here(kNow) == Duration{});
  CHECK(directory.heard.lines == std::vector{"--node-history: cannot read '" + folder.path() +
                                             "': not a regular file; continuing without it"});
}

TEST_CASE("node history: a file that grows too long is shortened") {
  const TestFolder folder;
  const std::string path = folder.path() + "/nodes";
  std::string text;
  while (text.size() <= kHistoryBytesMax) {
    text += history_line({kNow, "node1", "", ""});
  }
  REQUIRE(write_file(path, text));
  Site job(path);
  job.events.tell(suspect("node7"));
  const std::string after = read_some(path, 2 * kHistoryBytesMax);
  CHECK(after.size() <= kHistoryBytesMax / 2);
  CHECK(parse_history(after).entries.back().node == "node7");
  CHECK(job.heard.lines.empty());
}

TEST_CASE("node history: only failures that another node might not have count") {
  CHECK(may_be_of_node(Cause::hardware));
  CHECK(may_be_of_node(Cause::unknown));
  CHECK_FALSE(may_be_of_node(Cause::bug));
  CHECK_FALSE(may_be_of_node(Cause::usage));
  CHECK_FALSE(may_be_of_node(Cause::preemption));
}

}  // namespace muster
