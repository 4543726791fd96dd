// SPDX-License-Identifier: Apache-2.0
// The launcher's answers to queries about its job, without sockets.
#include "agent/web/job_site.hpp"

#include "support/catch.hpp"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

using namespace muster;

namespace {

struct Bench {
  int told = 0;
  NodeStats stats;
  JobSite site{"run1",
               42,
               JobSite::Means{[] { return 200.0; },
                              [] {
                                return MetricsExtra{200.0, 7, 3, 1};
                              },
                              [this] { return stats; },
                              [this] { ++told; }}};

  void tell(event::What what) { site.take(JobEvent{100, "n", 1, std::move(what)}); }

  void begin(int workers) {
    event::RoundBegun begun;
    begun.assignment.local_world_size = workers;
    begun.assignment.world_size = workers;
    tell(begun);
  }

  void start(int local_rank) { tell(event::WorkerStarted{local_rank, local_rank, 1000}); }

  HttpResponse get(const std::string& path, const std::string& last_id = "") {
    HttpRequest request;
    request.get = true;
    request.path = path.substr(0, path.find('?'));
    request.query = path.find('?') == std::string::npos ? "" : path.substr(path.find('?') + 1);
    request.last_event_id = last_id;
    return site.answer(request);
  }

  std::string body(const std::string& path) { return *get(path).body; }

  // All events sent to a stream with this last id.
  std::string stream(const std::string& last_id) {
    std::uint64_t cursor = get("/v1/events", last_id).cursor;
    std::string out;
    for (std::string part = site.events_from(cursor); !part.empty();
         part = site.events_from(cursor)) {
      out += part;
    }
    return out;
  }
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("job site: ready while all workers of the round are running") {
  Bench bench;
  CHECK(bench.get("/healthz").status == 200);
  CHECK(bench.get("/readyz").status == 503);
  CHECK(bench.body("/readyz") == "waiting\n");
  bench.begin(2);
  bench.start(0);
  CHECK(bench.body("/readyz") == "starting\n");
  bench.start(1);
  CHECK(bench.get("/readyz").status == 200);
  bench.tell(event::RegroupAsked{"why"});
  CHECK(bench.get("/readyz").status == 503);
  CHECK(bench.told == 4);
}

TEST_CASE("job site: content type and body of each path") {
  Bench bench;
  bench.begin(1);
  CHECK(bench.get("/").type == "text/html; charset=utf-8");
  CHECK(bench.get("/page.css").type == "text/css");
  CHECK(bench.get("/v1/timeline.svg").type == "image/svg+xml");
  CHECK(has(bench.body("/v1/status"), R"("agent_pid":42)"));
  CHECK(has(bench.body("/metrics"), "muster_output_bytes_total 7\n"));
  CHECK(bench.get("/v1").status == 404);
}

TEST_CASE("job site: reads the workers' steps on each request") {
  Bench bench;
  bench.begin(2);
  bench.start(0);
  bench.start(1);
  CHECK(has(bench.body("/v1/status"), R"("step":null)"));
  bench.stats.workers = {{.step = 118}, {}};
  CHECK(has(bench.body("/metrics"), "muster_worker_step{rank=\"0\"} 118\n"));
  CHECK_FALSE(has(bench.body("/metrics"), "muster_worker_step{rank=\"1\"}"));
  CHECK(has(bench.body("/v1/status"), R"("step":118)"));
}

TEST_CASE("job site: reads the workers' wait times on each request") {
  Bench bench;
  bench.begin(2);
  bench.start(0);
  bench.start(1);
  CHECK(has(bench.body("/v1/status"), R"("waits":null)"));
  bench.stats.workers = {{.waits = WaitStatus{0.36695849, 3}}, {}};
  CHECK(has(bench.body("/v1/status"), R"("waits":0.367,"waited":3.0)"));
  CHECK(has(bench.body("/metrics"), "muster_worker_waiting_seconds_total{rank=\"0\"} 3\n"));
  CHECK_FALSE(has(bench.body("/metrics"), "waiting_seconds_total{rank=\"1\"}"));
}

TEST_CASE("job site: reads what the workers do on each request") {
  Bench bench;
  bench.begin(2);
  bench.start(0);
  bench.start(1);
  bench.stats.workers = {{.step = 7,
                          .step_age = 0.5,
                          .steps_per_second = 12.34567,
                          .numbers = {{"loss", 0.25}, {"norm", std::nan("")}},
                          .output_age = 61.0,
                          .cpus = 1.5,
                          .memory = 4096,
                          .gpus = 0.87,
                          .gpu_memory = 2048},
                         {}};
  bench.stats.steps = {100, {std::nullopt, 0.0812345}};
  const std::string status = bench.body("/v1/status");
  CHECK(has(status,
            R"("step":7,"step_age":0.5,"steps_per_second":12.35,)"
            R"("numbers":{"loss":0.25,"norm":"nan"},"waits":null,"waited":null,)"
            R"("output_age":61.0,"cpus":1.5,"memory":4096,"gpus":0.87,"gpu_memory":2048})"));
  CHECK(has(status, R"("step_times":{"interval":10.0,"end":100.0,"seconds":[null,0.08123]})"));
  const std::string metrics = bench.body("/metrics");
  CHECK(has(metrics, "muster_worker_number{rank=\"0\",name=\"loss\"} 0.25\n"));
  CHECK(has(metrics, "muster_worker_number{rank=\"0\",name=\"norm\"} nan\n"));
  CHECK(has(metrics, "muster_worker_cpus{rank=\"0\"} 1.5\n"));
  CHECK(has(metrics, "muster_worker_memory_bytes{rank=\"0\"} 4096\n"));
  CHECK(has(metrics, "muster_worker_gpus{rank=\"0\"} 0.87\n"));
  CHECK(has(metrics, "muster_worker_gpu_memory_bytes{rank=\"0\"} 2048\n"));
  CHECK_FALSE(has(metrics, "muster_worker_cpus{rank=\"1\"}"));
}

TEST_CASE("job site: the fields of report.json include the last event") {
  Bench bench;
  bench.begin(1);
  bench.start(0);
  const JobEvent last{101.5, "n", 1, event::JobEnded{}};
  CHECK(bench.site.report_fields(last).starts_with(R"({"check":null,"account":{)"));
  bench.tell(event::NodesChecked{check::Verdict{.nodes = 3}, 1.25});
  const std::string fields = bench.site.report_fields(last);
  CHECK(fields.starts_with(R"({"check":{"time":100.0,"round":1,"nodes":3,)"));
  CHECK(has(fields, R"("seconds":1.25)"));
  CHECK(has(fields, R"("total_us":1500000)"));
  CHECK_FALSE(bench.site.events_over());
}

TEST_CASE("job site: a stream may begin with the last events") {
  Bench bench;
  bench.begin(3);
  for (int i = 0; i < 3; ++i) {
    bench.start(i);
  }
  CHECK(bench.get("/v1/events?last=1").cursor == 3);
  CHECK(bench.get("/v1/events?last=99").cursor == 0);
  CHECK(bench.get("/v1/events?last=-1").cursor == 0);
  CHECK(bench.get("/v1/events?follow=0&last=0").cursor == 4);
  CHECK_FALSE(bench.get("/v1/events?last=0&follow=0").follow);
  CHECK(bench.get("/v1/events?last=0", "run1-1").cursor == 2);
}

TEST_CASE(
    "job site: a stream resumes after the last event that the client has received in this run") {
  Bench bench;
  bench.begin(2);
  bench.start(0);
  bench.start(1);
  CHECK(bench.stream("").starts_with("id: run1-0\ndata: {\"v\":1,"));
  CHECK(bench.stream("run1-1").starts_with("id: run1-2\ndata: "));
  CHECK(bench.stream("run1-2").empty());
  for (const char* other : {"run0-1", "run1-99", "run1--1", "run1-", "rubbish"}) {
    CAPTURE(other);
    CHECK(bench.stream(other).starts_with("id: run1-0\n"));
  }
  CHECK_FALSE(bench.get("/v1/events?follow=0").follow);
  CHECK_FALSE(bench.site.events_over());
  bench.tell(event::JobEnded{});
  CHECK(has(bench.stream("run1-2"), "\"event\":\"job_ended\""));
  CHECK(bench.site.events_over());
}

TEST_CASE("job site: old events are dropped, and their numbers are not reused") {
  Bench bench;
  const std::string text(8000, 'x');
  const int count = 300;
  for (int i = 0; i < count; ++i) {
    bench.tell(event::Message{LogLevel::info, text});
  }
  const std::string all = bench.stream("run1-0");
  CHECK(all.size() < kEventLinesBytesMax + 16 * 1024);
  CHECK_FALSE(has(all, "id: run1-1\n"));
  CHECK(has(all, "id: run1-299\n"));
}
