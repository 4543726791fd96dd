// SPDX-License-Identifier: Apache-2.0
#include "http/session.hpp"

#include "support/catch.hpp"

#include <memory>
#include <string>
#include <vector>

using namespace muster;

namespace {

class Site final : public HttpSite {
 public:
  std::vector<std::string> lines;
  bool over = false;
  std::vector<std::string> asked;
  std::shared_ptr<void> held;

  HttpResponse answer(const HttpRequest& request) override {
    asked.push_back(request.path);
    if (request.path == "/held") {
      HttpResponse out = plain_response(200, "held");
      out.held = held;
      return out;
    }
    if (request.path == "/events") {
      HttpResponse out;
      out.events = true;
      out.follow = request.query.empty();
      return out;
    }
    return plain_response(200, request.path);
  }

  std::string events_from(std::uint64_t& cursor) override {
    return cursor < lines.size() ? lines[static_cast<std::size_t>(cursor++)] : std::string();
  }

  bool events_over() const override { return over; }
};

struct Bench {
  Site site;
  HttpCounts counts;
  TimePoint now{};
  HttpSession session{site, HttpAccess{true}, counts, now};

  void take(const std::string& text) { session.take(text, now); }

  // All pending output, as if the peer had received it.
  std::string send() {
    std::string out;
    while (!session.output().empty()) {
      out += session.output();
      session.sent(session.output().size(), now);
    }
    return out;
  }
};

const std::string kHost = "Host: localhost\r\n";

std::string get(const std::string& target) {
  return "GET " + target + " HTTP/1.1\r\n" + kHost + "\r\n";
}

}  // namespace

TEST_CASE("http session: answers a request, then the next one on the same connection") {
  Bench bench;
  bench.take(get("/a"));
  CHECK(bench.session.output().starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK_FALSE(bench.session.is_idle());
  const std::string said = bench.send();
  CHECK(said.ends_with("\r\n\r\n/a\n"));
  CHECK(said.find("Content-Length: 3\r\n") != std::string::npos);
  CHECK_FALSE(bench.session.close_wanted());
  CHECK(bench.session.is_idle());
  bench.take(get("/b"));
  CHECK(bench.send().ends_with("/b\n"));
  CHECK(bench.counts.answered == 2);
}

TEST_CASE("http session: a pipelined request waits until the previous answer is sent") {
  Bench bench;
  bench.take(get("/a") + get("/b"));
  CHECK(bench.site.asked == std::vector<std::string>{"/a"});
  bench.session.sent(bench.session.output().size(), bench.now);  // the head
  bench.session.sent(bench.session.output().size(), bench.now);  // the body
  CHECK(bench.site.asked == std::vector<std::string>{"/a", "/b"});
}

TEST_CASE("http session: HEAD has no body; a rejected request closes the connection") {
  Bench bench;
  bench.take("HEAD /a HTTP/1.1\r\n" + kHost + "\r\n");
  CHECK(bench.send().ends_with("\r\n\r\n"));
  CHECK_FALSE(bench.session.close_wanted());
  bench.take("GET /a HTTP/1.1\r\nHost: example.org\r\n\r\n");
  CHECK(bench.send().starts_with("HTTP/1.1 403 Forbidden\r\n"));
  CHECK(bench.session.close_wanted());
  CHECK(bench.site.asked.size() == 1);
  CHECK(bench.counts.refused == 1);
  bench.take(get("/a"));
  CHECK(bench.site.asked.size() == 1);
}

TEST_CASE("http session: deadlines of each phase") {
  Bench bench;
  CHECK(bench.session.deadline() == bench.now + kIdleTimeout);
  bench.take("GET ");
  bench.now += std::chrono::seconds(9);
  bench.take("/a");
  CHECK(bench.session.deadline() == TimePoint{} + kRequestTimeout);
  bench.take(" HTTP/1.1\r\n" + kHost + "\r\n");
  CHECK(bench.session.deadline() == bench.now + kSendTimeout);
  const TimePoint asked = bench.now;
  for (int i = 0; i < 20; ++i) {
    bench.now += std::chrono::seconds(5);
    bench.session.sent(1, bench.now);
  }
  CHECK(bench.session.deadline() == asked + kAnswerTimeout);
}

TEST_CASE("http session: a stream of events, with heartbeats and an end") {
  Bench bench;
  bench.site.lines = {"data: 1\n\n", "data: 2\n\n"};
  bench.take(get("/events"));
  const std::string said = bench.send();
  CHECK(said.find("Content-Length") == std::string::npos);
  CHECK(said.ends_with("\r\n\r\ndata: 1\n\ndata: 2\n\n"));
  CHECK(bench.session.streams());
  CHECK_FALSE(bench.session.is_idle());
  CHECK(bench.session.deadline() == TimePoint::max());
  bench.session.poll_events(bench.now);
  CHECK(bench.session.output().empty());
  bench.now += kHeartbeat + std::chrono::seconds(1);
  bench.session.poll_events(bench.now);
  CHECK(bench.send() == ":\n\n");
  bench.site.lines.emplace_back("data: 3\n\n");
  bench.site.over = true;
  bench.session.poll_events(bench.now);
  CHECK(bench.send() == "data: 3\n\n");
  CHECK(bench.session.close_wanted());
}

TEST_CASE("http session: drops a reader that does not read its stream") {
  Bench bench;
  bench.take(get("/events"));
  bench.send();
  bench.site.lines = {"data: 1\n\n"};
  bench.session.poll_events(bench.now);
  CHECK(bench.session.deadline() == bench.now + kSendTimeout);
  bench.session.poll_events(bench.now);  // no more is generated until the client has received this
  CHECK(bench.session.output() == "data: 1\n\n");
}

TEST_CASE("http session: a stream with follow=0 ends after the existing events") {
  Bench bench;
  bench.site.lines = {"data: 1\n\n"};
  bench.take(get("/events?follow=0"));
  CHECK(bench.send().ends_with("data: 1\n\n"));
  CHECK(bench.session.close_wanted());
}

TEST_CASE("http session: rejects another stream if too many are open") {
  Bench bench;
  bench.counts.streams = kHttpStreamsMax;
  bench.take(get("/status"));
  CHECK(bench.send().starts_with("HTTP/1.1 200 "));
  bench.take(get("/events"));
  CHECK(bench.send().starts_with("HTTP/1.1 503 "));
  CHECK_FALSE(bench.session.streams());
  CHECK(bench.session.close_wanted());
  CHECK(bench.counts.refused == 1);
}

TEST_CASE("a held object lasts as long as the connection, which has no time limit") {
  const auto held = std::make_shared<int>(0);
  {
    Bench bench;
    bench.site.held = held;
    bench.take(get("/held"));
    bench.site.held.reset();
    CHECK(bench.send().ends_with("\r\n\r\nheld\n"));
    bench.take(get("/other"));
    CHECK(bench.site.asked == std::vector<std::string>{"/held"});
    CHECK(bench.session.deadline() == TimePoint::max());
    CHECK_FALSE(bench.session.close_wanted());
    CHECK_FALSE(bench.session.is_idle());
    CHECK(held.use_count() > 1);
  }
  CHECK(held.use_count() == 1);
}
