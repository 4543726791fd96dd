// SPDX-License-Identifier: Apache-2.0
#include "http/request_parser.hpp"

#include "support/catch.hpp"

#include <string>

using namespace muster;

namespace {

int refusal_of(const std::string& text) {
  RequestParser parser;
  static_cast<void>(parser.feed(text));
  return parser.refusal();
}

}  // namespace

TEST_CASE("http parser: parses a request byte by byte, and keeps the bytes after it") {
  const std::string text =
      "GET /v1/events?follow=0 HTTP/1.1\r\nHost: a:1\r\nLast-Event-ID: x-7\r\n\r\n";
  RequestParser parser;
  CHECK_FALSE(parser.begun());
  for (std::size_t i = 0; i < text.size(); ++i) {
    CHECK_FALSE(parser.complete());
    CHECK(parser.feed(text.substr(i, 1)) == 1);
  }
  REQUIRE(parser.complete());
  CHECK(parser.feed("GET") == 0);
  const HttpRequest request = parser.take();
  CHECK(request.get);
  CHECK_FALSE(request.head);
  CHECK(request.path == "/v1/events");
  CHECK(request.query == "follow=0");
  CHECK(request.host == "a:1");
  CHECK(request.last_event_id == "x-7");
  CHECK(request.keep_alive);
  CHECK_FALSE(parser.begun());
  CHECK(parser.feed(text + text) == text.size());
}

TEST_CASE("http parser: keep-alive depends on the version") {
  const auto keeps = [](const std::string& text) {
    RequestParser parser;
    static_cast<void>(parser.feed(text));
    REQUIRE(parser.complete());
    return parser.take().keep_alive;
  };
  CHECK(keeps("HEAD / HTTP/1.1\r\n\r\n"));
  CHECK_FALSE(keeps("HEAD / HTTP/1.0\r\n\r\n"));
  CHECK_FALSE(keeps("GET / HTTP/1.1\r\nConnection: close\r\n\r\n"));
}

TEST_CASE("http parser: rejected requests and their status") {
  CHECK(refusal_of("GET / HTTP/1.1\r\nHost: a\r\n\r\n") == 0);
  CHECK(refusal_of("rubbish\r\n\r\n") == 400);
  CHECK(refusal_of("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n") == 400);
  CHECK(refusal_of("GET / HTTP/1.1\r\nContent-Length: 1\r\n\r\n") == 413);
  CHECK(refusal_of("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n") == 413);
  CHECK(refusal_of("GET / HTTP/2.0\r\n\r\n") == 505);
  CHECK(refusal_of("GET /" + std::string(kRequestHeadBytesMax, 'x')) == 431);
  CHECK(refusal_of("GET / HTTP/1.1\r\nX: " + std::string(kRequestHeadBytesMax, 'x')) == 431);
}
