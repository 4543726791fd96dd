// SPDX-License-Identifier: Apache-2.0
#include "worker/channel/frames.hpp"

#include "support/catch.hpp"

#include <fmt/core.h>

using namespace muster;
using namespace muster::channel;

namespace {

std::string line_of(std::string text) {
  CHECK(text.ends_with('\n'));
  text.pop_back();
  CHECK_FALSE(text.contains('\n'));
  return text;
}

template <class Frame>
void check_worker_frame(const Frame& frame, const std::string& line) {
  CHECK(line_of(encode(WorkerFrame(frame))) == line);
  const auto read = decode_worker_frame(line);
  REQUIRE((read && *read));
  CHECK(**read == WorkerFrame(frame));
}

template <class Frame>
void check_agent_frame(const Frame& frame, const std::string& line) {
  CHECK(line_of(encode(AgentFrame(frame))) == line);
  const auto read = decode_agent_frame(line);
  REQUIRE((read && *read));
  CHECK(**read == AgentFrame(frame));
}

std::string refusal(const std::string& line) {
  const auto read = decode_worker_frame(line);
  REQUIRE_FALSE(read);
  CHECK(read.error().code == Errc::protocol);
  return read.error().message;
}

}  // namespace

TEST_CASE("channel frames: messages from workers") {
  check_worker_frame(ProgressMade{118}, R"({"type":"progress","step":118})");
  check_worker_frame(ProgressMade{UINT64_MAX},
                     R"({"type":"progress","step":18446744073709551615})");
  check_worker_frame(Healthy{}, R"({"type":"healthy"})");
  check_worker_frame(Unhealthy{"loss is \"nan\"\n"},
                     R"({"type":"unhealthy","why":"loss is \"nan\"\n"})");
  check_worker_frame(WorkerEvent{R"({"saved":[1,null]})"},
                     R"({"type":"event","data":{"saved":[1,null]}})");
  check_worker_frame(Ready{3}, R"({"type":"ready","epoch":3})");
  check_worker_frame(Subscribe{}, R"({"type":"subscribe"})");
  check_worker_frame(Subscribe{true}, R"({"type":"subscribe","mends":true})");
  check_worker_frame(Heard{}, R"({"type":"heard"})");
  check_worker_frame(Heard{true}, R"({"type":"heard","arrived":true})");
  check_worker_frame(Saved{119}, R"({"type":"saved","step":119})");
  check_worker_frame(Outlive{}, R"({"type":"outlive"})");
}

TEST_CASE("channel frames: messages from the agent") {
  check_agent_frame(Hello{1, 2, 5, 1},
                    R"({"type":"hello","version":1,"epoch":2,"rank":5,"local_rank":1})");
  Round round{2, 5, 8, 1, 4, 1, 2, 1, "node1", 4711, {{"node2", 4, 4}}, {{"node3", 4, 4}}};
  check_agent_frame(
      round,
      R"({"type":"round","epoch":2,"rank":5,"world_size":8,"local_rank":1,"local_world_size":4,)"
      R"("group_rank":1,"group_world_size":2,"restarts":1,"store_address":"node1",)"
      R"("store_port":4711,"left":[{"node":"node2","rank":4,"count":4}],)"
      R"("joined":[{"node":"node3","rank":4,"count":4}]})");
  check_agent_frame(Gone{2, 7, 1, true, "killed by SIGKILL"},
                    R"({"type":"gone","epoch":2,"rank":7,"count":1,"failed":true,)"
                    R"("why":"killed by SIGKILL"})");
  check_agent_frame(Stop{30.5, "x"}, R"({"type":"stop","seconds":30.5,"why":"x"})");
  check_agent_frame(Preempt{119, 30.5, "x"},
                    R"({"type":"preempt","seconds":30.5,"why":"x","step":119})");
  check_agent_frame(Preempt{{}, 30.5, "x"}, R"({"type":"preempt","seconds":30.5,"why":"x"})");
  check_agent_frame(Refused{"y"}, R"({"type":"refused","why":"y"})");
}

TEST_CASE("channel frames: ignores unknown types and fields, which later versions may add") {
  const auto later = decode_worker_frame(R"({"type":"sing","loud":true})");
  REQUIRE(later);
  CHECK_FALSE(*later);
  const auto more = decode_worker_frame(R"( { "loud": {}, "step" : 3, "type":"progress" } )");
  REQUIRE((more && *more));
  CHECK(**more == WorkerFrame(ProgressMade{3}));
}

TEST_CASE("channel frames: rejects invalid frames with a reason") {
  CHECK(refusal("") == "a line that is not JSON");
  CHECK(refusal("GET / HTTP/1.1") == "a line that is not JSON");
  CHECK(refusal("{\"type\":\"healthy\"}x") == "a line that is not JSON");
  CHECK(refusal("{\"type\":\"unhealthy\",\"why\":\"\xff\"}") == "a line that is not JSON");
  CHECK(refusal("[]") == "a frame without 'type'");
  CHECK(refusal("{}") == "a frame without 'type'");
  CHECK(refusal(R"({"type":3})") == "a frame without 'type'");
  CHECK(refusal(R"({"type":"progress"})") == "'step' is missing");
  for (const char* step : {"-1", "1.5", "1e3", "\"1\"", "null", "18446744073709551616", "true"}) {
    CHECK(refusal(fmt::format(R"({{"type":"progress","step":{}}})", step)) ==
          "'step' is not a non-negative integer");
  }
  CHECK(refusal(R"({"type":"unhealthy","why":1})") == "'why' is not a string");
  CHECK(refusal(R"({"type":"event"})") == "'data' is missing");
}

TEST_CASE("channel frames: size and depth are limited") {
  CHECK(refusal(std::string(kFrameBytesMax + 1, ' ')) == "a frame of more than 8192 bytes");
  const auto nested = [](int levels) {
    return fmt::format(R"({{"type":"event","data":{}{}}})",
                       std::string(static_cast<std::size_t>(levels), '['),
                       std::string(static_cast<std::size_t>(levels), ']'));
  };
  CHECK(decode_worker_frame(nested(kDepthMax - 1)));
  CHECK(refusal(nested(kDepthMax)) == "a frame nested more than 16 levels deep");
  CHECK(refusal(nested(4000)) == "a frame nested more than 16 levels deep");
  // Brackets in a string do not count, and an escaped quote does not end it.
  CHECK(decode_worker_frame(
      fmt::format(R"({{"type":"unhealthy","why":"\"{}"}})", std::string(100, '['))));
}

TEST_CASE("channel frames: checks an event before sending it") {
  CHECK(event_of(R"({"a":[1,2,{"b":null}]})") == WorkerEvent{R"({"a":[1,2,{"b":null}]})"});
  CHECK(event_of("3"));
  CHECK_FALSE(event_of(""));
  CHECK(event_of("{").error().message == "cannot send this event: a line that is not JSON");
}

TEST_CASE("channel frames: does not send an event that the agent would reject") {
  const auto nested = [](std::size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  CHECK(event_of(nested(kDepthMax - 1)));
  CHECK(event_of(nested(kDepthMax)).error().message ==
        "cannot send this event: a frame nested more than 16 levels deep");
  const std::size_t around = encode(WorkerFrame(WorkerEvent{"1"})).size() - 2;
  const auto text = [&](std::size_t more) {
    return '"' + std::string(kFrameBytesMax - around - 2 + more, 'x') + '"';
  };
  CHECK(event_of(text(0)));
  CHECK_FALSE(event_of(text(1)));
  std::string longer = "[1e9";  // which is encoded as 1000000000.0
  while (longer.size() < kFrameBytesMax / 2) {
    longer += ",1e9";
  }
  CHECK_FALSE(event_of(longer + "]"));
}

TEST_CASE("channel frames: splits the stream into lines wherever the reads end") {
  LineReader reader;
  reader.feed("ab");
  CHECK(reader.next() == std::nullopt);
  reader.feed("c\n\nde\nf");
  CHECK(reader.has_line());
  CHECK(reader.next() == "abc");
  CHECK(reader.next() == "");
  CHECK(reader.next() == "de");
  CHECK_FALSE(reader.has_line());
  CHECK(reader.next() == std::nullopt);
}

TEST_CASE("channel frames: rejects an overlong line, accepts one of the maximum length") {
  LineReader reader;
  reader.feed(std::string(kFrameBytesMax, 'x'));
  CHECK(reader.next() == std::nullopt);
  reader.feed("\n");
  CHECK(reader.next() == std::string(kFrameBytesMax, 'x'));
  reader.feed(std::string(kFrameBytesMax + 1, 'x'));
  CHECK(reader.next().error().message == "a frame of more than 8192 bytes");
}
