// SPDX-License-Identifier: Apache-2.0
// The client against bytes from a test.
#include "http/client.hpp"

#include "base/clock.hpp"
#include "support/catch.hpp"

#include <string_view>

#include <sys/socket.h>

using namespace muster;

namespace {

// An answer that is available before the request.
Result<HttpStream> get_from(std::string_view answer, bool ends = true) {
  int ends_of[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends_of) == 0);
  UniqueFd server(ends_of[1]);
  REQUIRE(::send(server.get(), answer.data(), answer.size(), 0) == ssize_t(answer.size()));
  if (ends) {
    ::shutdown(server.get(), SHUT_WR);
  }
  static_cast<void>(server.release());  // stays open as long as the test process runs
  return HttpStream::get(UniqueFd(ends_of[0]), "h", "/", steady_now() + std::chrono::seconds(5));
}

TimePoint soon() {
  return steady_now() + std::chrono::milliseconds(20);
}

}  // namespace

TEST_CASE("http client: reads a body of known length") {
  auto stream = get_from("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false);
  REQUIRE(stream);
  CHECK(stream->status() == 200);
  CHECK(stream->read_all(soon()) == "hello");
}

TEST_CASE("http client: reads a body that ends with the connection; reports a missing one") {
  auto whole = get_from("HTTP/1.1 503 No\r\nConnection: close\r\n\r\nwaiting\n");
  REQUIRE(whole);
  CHECK(whole->status() == 503);
  CHECK(whole->read_all(soon()) == "waiting\n");
  auto stuck = get_from("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe", false);
  REQUIRE(stuck);
  CHECK(stuck->read_all(soon()).error().code == Errc::timed_out);
  auto torn = get_from("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe");
  REQUIRE(torn);
  CHECK(torn->read_all(soon()).error().code == Errc::closed);
}

TEST_CASE("http client: reads an answer without blocking") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  UniqueFd server(ends[1]);
  auto stream = HttpStream::begin(UniqueFd(ends[0]), "h", "/", steady_now());
  REQUIRE(stream);
  CHECK(stream->take_ready() == false);  // nothing has arrived
  for (const std::string_view part : {"HTTP/1.1 200 OK\r\nContent-", "Length: 5\r\n\r\nhe"}) {
    REQUIRE(::send(server.get(), part.data(), part.size(), 0) == ssize_t(part.size()));
    CHECK(stream->take_ready() == false);
  }
  REQUIRE(::send(server.get(), "llo", 3, 0) == 3);
  CHECK(stream->take_ready() == true);
  CHECK(stream->status() == 200);
  CHECK(stream->read_all(steady_now()) == "hello");
}

TEST_CASE("http client: reading without blocking reports an answer that ends too early") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  UniqueFd server(ends[1]);
  auto stream = HttpStream::begin(UniqueFd(ends[0]), "h", "/", steady_now());
  REQUIRE(stream);
  server.reset();
  CHECK(stream->take_ready().error().code == Errc::closed);
}

TEST_CASE("http client: a stream may be longer than the limit for a whole answer") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  const UniqueFd server(ends[1]);
  const std::string head = "HTTP/1.1 200 OK\r\n\r\n";
  const std::string part(32768, 'x');
  REQUIRE(::send(server.get(), head.data(), head.size(), 0) == ssize_t(head.size()));
  auto stream = HttpStream::get(UniqueFd(ends[0]), "h", "/", soon());
  REQUIRE(stream);
  std::size_t seen = 0;
  while (seen <= kAnswerBytesMax) {
    REQUIRE(::send(server.get(), part.data(), part.size(), 0) == ssize_t(part.size()));
    const auto got = stream->read_some(steady_now() + std::chrono::seconds(5));
    REQUIRE(got);
    seen += got->size();
  }
}

TEST_CASE("http client: an invalid response is a protocol error") {
  CHECK(get_from("SSH-2.0-x\r\n").error().code == Errc::protocol);
  CHECK(get_from("").error().code == Errc::closed);
}

TEST_CASE("http client: splits lines of events wherever the reads end") {
  EventLines lines;
  CHECK(lines.feed("id: 1\nda") == "");
  CHECK(lines.feed("ta: {\"a\":1}") == "");
  CHECK(lines.feed("\n\n:\n\nid: 2\ndata: {}\n\ndata: [") == "{\"a\":1}\n{}\n");
  CHECK(lines.feed("]\n") == "[]\n");
}

TEST_CASE("http client: an event that does not end is a protocol error") {
  EventLines lines;
  const std::string part = "data: " + std::string(kEventLineBytesMax / 2, 'x');
  CHECK(lines.feed(part) == "");
  CHECK(lines.feed(part).error().code == Errc::protocol);
}
