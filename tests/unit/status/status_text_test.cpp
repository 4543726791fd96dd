// SPDX-License-Identifier: Apache-2.0
#include "status/status_text.hpp"

#include "job_lines.hpp"
#include "status/status_json.hpp"
#include "support/catch.hpp"

#include <algorithm>

using namespace muster;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string screen_of(const std::string& json, const ScreenSize& size = {}, TopView view = {}) {
  return top_screen(json, size, view);
}

long columns_of(const std::string& line) {
  return std::ranges::count_if(line, [](char c) { return (c & 0xc0) != 0x80; });
}

// A node whose ranks report steps and a number.
std::string job_with_ranks(int count) {
  JobStatus status = running_job();
  status.rounds.back().workers.clear();
  status.rounds.back().nodes.resize(1);
  for (int i = 0; i < count; ++i) {
    WorkerStatus worker;
    worker.rank = i;
    worker.stats = {.step = 1000U + static_cast<unsigned>(i),
                    .steps_per_second = 10.0 - i,
                    .numbers = {{"loss", 0.36695849}},
                    .output_age = 61.0,
                    .cpus = 1.5,
                    .memory = std::uint64_t{3} << 29,
                    .gpus = 0.87,
                    .gpu_memory = std::uint64_t{5} << 30};
    status.rounds.back().workers.push_back(std::move(worker));
  }
  status.rounds.back().workers.at(1).unhealthy = "the loss has been not a number for 10 steps";
  return status_json(status, 130);
}

}  // namespace

TEST_CASE("status text: a running job") {
  const std::string text = status_text(status_json(regrouped_job(), 130));
  CHECK(has(text, "train.py: job j, node a, launcher pid 7\n"));
  CHECK(has(text, "running for 16 s, started 30 s ago\n"));
  CHECK(has(text, "round 2: 4 workers on 2 nodes; regroups: 1, restarts: 0 of 3\n"));
  CHECK(has(text, "workers here, running: 2 (ranks 0 to 1)\n"));
}

TEST_CASE("status text: missing nodes") {
  JobStatus status;
  add(status, 1, "job_started", 0, R"("program":"p")");
  add(status, 2, "roll_call", 0, R"("present":1,"needed":3,"awaited":["b","1 more node"])");
  CHECK(has(status_text(status_json(status, 5)),
            "waiting: 1 of 3 nodes is present; missing: b, 1 more node\n"));
}

TEST_CASE("status text: an unhealthy worker, until it is healthy or has exited") {
  JobStatus status = running_job();
  const auto told = [&] { return has(status_text(status_json(status, 130)), "unhealthy"); };
  CHECK_FALSE(told());
  add(status, 120, "worker_unhealthy", 1, ranks(1) + R"(,"why":"loss is NaN")");
  CHECK(status.ready());
  CHECK(has(status_text(status_json(status, 130)), "unhealthy: rank 1 (loss is NaN)\n"));
  add(status, 121, "worker_healthy", 1, ranks(1));
  CHECK_FALSE(told());
  add(status, 122, "worker_unhealthy", 1, ranks(1) + R"(,"why":"loss is NaN")");
  add(status, 123, "worker_ended", 1, ranks(1) + R"(,"exit_code":0,"signal":null)");
  CHECK_FALSE(told());
}

TEST_CASE("status text: the rank that blocks a hung job") {
  JobStatus status = running_job();
  add(status, 120, "hang", 1, R"("ranks":[1],"text":["hang: rank 1: stopped by a signal"])");
  const std::string json = status_json(status, 130);
  const auto says = [](const std::string& text) {
    return has(text, "hang since ") && has(text, ": rank 1: stopped by a signal\n");
  };
  CHECK(says(status_text(json)));
  CHECK(says(screen_of(json)));
}

TEST_CASE("status text: which ranks wait, for how long, and for which rank") {
  JobStatus status = running_job();
  CHECK_FALSE(has(status_text(status_json(status, 130)), "waits for others"));
  status.rounds.back().workers.at(0).stats.waits = WaitStatus{0.251, 12.5};
  status.rounds.back().workers.at(1).stats.waits = WaitStatus{0, 0.5};
  add(status, 120, "straggler", 1, R"("ranks":[1],"share":0.25,"text":"rank 1 is slow")");
  const std::string json = status_json(status, 130);
  for (const std::string& text : {status_text(json), screen_of(json)}) {
    CAPTURE(text);
    CHECK(has(text, "slow since "));
    CHECK(has(text, ": rank 1 is slow\n"));
  }
  CHECK(has(status_text(json), "waits for others: rank 1 0 %, rank 0 25 %\n"));
  CHECK(has(screen_of(json), "   0  running     25 %\n"));
  CHECK(has(screen_of(json), "   1  slow         0 %\n"));
}

TEST_CASE("status text: accepts any JSON, and prints no control characters") {
  for (const char* json :
       {"", "null", "[]", "{}", R"({"nodes":3,"rounds":{"a":1},"failures":7})"}) {
    CAPTURE(json);
    CHECK_FALSE(status_text(json).empty());
    CHECK_FALSE(screen_of(json).empty());
  }
  JobStatus status = running_job();
  status.job = "a\x1b[2J\nb";
  CHECK(has(status_text(status_json(status, 1)), "job a[2Jb,"));
}

TEST_CASE("status text: never exceeds one screen") {
  JobStatus status = regrouped_job();
  for (int i = 0; i < 60; ++i) {
    status.rounds.back().nodes.push_back({"node-with-a-long-name-" + std::to_string(i), "", i, 1});
  }
  for (const std::size_t rows : {2UL, 8UL, 24UL, 50UL}) {
    CAPTURE(rows);
    const std::string screen = screen_of(status_json(status, 1), {40, rows});
    CHECK(std::ranges::count(screen, '\n') < static_cast<long>(rows));
    for (std::size_t at = 0; at < screen.size(); at = screen.find('\n', at) + 1) {
      CHECK(columns_of(screen.substr(at, screen.find('\n', at) - at)) <= 40);
    }
  }
  CHECK(has(screen_of(status_json(status, 1), {80, 24}), "more nodes\n"));
}

TEST_CASE("status text: one line per rank, which uses the width of the screen") {
  const std::string json = job_with_ranks(3);
  const std::string wide = screen_of(json, {140, 24});
  CHECK(has(wide,
            "rank  state                                                   step  steps/s   loss  "
            "  CPU   memory   GPU  GPU memory  output\n"
            "   0  running                                                 1000       10  0.367  "
            "150 %  1.5 GiB  87 %     5.0 GiB   1 min\n"
            "   1  unhealthy: the loss has been not a number for 10 steps  1001        9  0.367  "
            "150 %  1.5 GiB  87 %     5.0 GiB   1 min\n"));
  CHECK(has(wide, "1 to 3 of 3 ranks by rank; q quits, s sorts, r reverses, arrows scroll\n"));
  CHECK(has(screen_of(json, {40, 24}),
            "rank  state         step  steps/s   loss\n"
            "   0  running       1000       10  0.367\n"
            "   1  unhealthy: …  1001        9  0.367\n"));
}

TEST_CASE("status text: keys sort and scroll the ranks") {
  const std::string json = job_with_ranks(100);
  const ScreenSize size{80, 24};
  TopView view;
  const auto after = [&](std::string_view key) {
    take_key(view, key, json, size);
    return top_screen(json, size, view);
  };
  CHECK(has(screen_of(json, size), "1 to 16 of 100 ranks by rank;"));
  CHECK(has(after("\x1b[B"), "2 to 17 of 100"));
  CHECK(has(after("\x1b[6~"), "14 to 29 of 100"));
  CHECK(has(after("\x1b[F"), "85 to 100 of 100"));
  CHECK(has(after("\x1b[A"), "84 to 99 of 100"));
  CHECK(has(after("\x1b[5~"), "72 to 87 of 100"));
  CHECK(has(after("\x1b[H"), "1 to 16 of 100"));
  CHECK(has(after("r"), "by rank, reversed;"));
  CHECK(view.descending);
  const std::string reversed = after("x");
  CHECK(reversed.find("\n  99  ") < reversed.find("\n  98  "));
  std::vector<std::string> titles;
  for (int i = 0; i < 10; ++i) {
    take_key(view, "s", json, size);
    titles.push_back(view.sort);
  }
  CHECK(titles == std::vector<std::string>{"state",
                                           "step",
                                           "steps/s",
                                           "loss",
                                           "CPU",
                                           "memory",
                                           "GPU",
                                           "GPU memory",
                                           "output",
                                           "rank"});
}

TEST_CASE("status text: ranks without a value come last") {
  const Json json = parse_json(
      R"({"workers":[{"rank":0},{"rank":1,"step":5},{"rank":2,"step":7},{"rank":3,"numbers":7}]})");
  for (const bool descending : {false, true}) {
    const auto table = rank_table(json, {"step", descending, 0}, 9, 80);
    REQUIRE(table.size() == 5);
    CHECK(has(table[1], descending ? "7" : "5"));
    CHECK(has(table[4], "-"));
  }
  CHECK(rank_table(parse_json(R"({"workers":[7,"x",null]})"), {}, 9, 80).size() == 4);
  CHECK(shortened("äöüß", 3) == "äö…");
}

TEST_CASE("status text: one line per event") {
  CHECK(has(event_text(line(0, "worker_started", 2, R"("rank":3,"end":null,"list":[1,2])")),
            "  round 2  worker_started  node=a  rank=3  list=(2)"));
  CHECK(event_text("no\x1b event") == "no event");
}
