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
  CHECK(says(top_screen(json, {})));
}

TEST_CASE("status text: which ranks wait, for how long, and for which rank") {
  JobStatus status = running_job();
  CHECK_FALSE(has(status_text(status_json(status, 130)), "waits for others"));
  status.rounds.back().workers.at(0).waits = WaitStatus{0.251, 12.5};
  status.rounds.back().workers.at(1).waits = WaitStatus{0, 0.5};
  add(status, 120, "straggler", 1, R"("ranks":[1],"share":0.25,"text":"rank 1 is slow")");
  const std::string json = status_json(status, 130);
  for (const std::string& text : {status_text(json), top_screen(json, {})}) {
    CAPTURE(text);
    CHECK(has(text, "slow since "));
    CHECK(has(text, ": rank 1 is slow\n"));
    CHECK(has(text, "waits for others: rank 1 0 %, rank 0 25 %\n"));
  }
}

TEST_CASE("status text: accepts any JSON, and prints no control characters") {
  for (const char* json :
       {"", "null", "[]", "{}", R"({"nodes":3,"rounds":{"a":1},"failures":7})"}) {
    CAPTURE(json);
    CHECK_FALSE(status_text(json).empty());
    CHECK_FALSE(top_screen(json, {}).empty());
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
    const std::string screen = top_screen(status_json(status, 1), {40, rows});
    CHECK(std::ranges::count(screen, '\n') < static_cast<long>(rows));
    for (std::size_t at = 0; at < screen.size(); at = screen.find('\n', at) + 1) {
      CHECK(screen.find('\n', at) - at <= 40);
    }
  }
  CHECK(has(top_screen(status_json(status, 1), {80, 24}), "more nodes\n"));
}

TEST_CASE("status text: one line per event") {
  CHECK(has(event_text(line(0, "worker_started", 2, R"("rank":3,"end":null,"list":[1,2])")),
            "  round 2  worker_started  node=a  rank=3  list=(2)"));
  CHECK(event_text("no\x1b event") == "no event");
}
