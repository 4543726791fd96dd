// SPDX-License-Identifier: Apache-2.0
// Only this file and client.cpp include libhttp_parser.
#include "http/request_parser.hpp"

#include "base/text.hpp"

#include <string>
#include <utility>

#include <http_parser.h>

namespace muster {
namespace {

constexpr int kBadRequest = 400;
constexpr int kTooLarge = 413;
constexpr int kHeadTooLarge = 431;
constexpr int kVersionNotSupported = 505;

}  // namespace

struct RequestParser::Impl {
  http_parser parser{};
  HttpRequest request;
  std::string target;
  std::string name;   // name of the current header
  std::string value;  // value of the current header
  bool in_value = false;
  bool complete = false;
  std::size_t bytes = 0;
  int refusal = 0;

  Impl() {
    http_parser_init(&parser, HTTP_REQUEST);
    parser.data = this;
  }

  static Impl& of(http_parser* parser) { return *static_cast<Impl*>(parser->data); }

  // Returning an error from a callback stops the parser.
  int refuse(int status) {
    refusal = refusal == 0 ? status : refusal;
    return 1;
  }

  void end_header() {
    const std::string known = to_lower(name);
    if (known == "host") {
      refusal = request.has_host ? kBadRequest : refusal;
      request.has_host = true;
      request.host = value;
    } else if (known == "last-event-id") {
      request.last_event_id = value;
    } else if (known == "authorization") {
      request.authorization = value;
    } else if (known == "cookie") {
      request.cookie = value;
    }
    name.clear();
    value.clear();
    in_value = false;
  }

  int take_head() {
    end_header();
    if (refusal != 0) {
      return 1;
    }
    if (parser.http_major != 1) {
      return refuse(kVersionNotSupported);
    }
    const bool chunked = (parser.flags & F_CHUNKED) != 0;
    if (chunked || (parser.content_length != 0 && parser.content_length != ULLONG_MAX)) {
      return refuse(kTooLarge);
    }
    const auto query = target.find('?');
    request.path = target.substr(0, query);
    request.query = query == std::string::npos ? "" : target.substr(query + 1);
    request.head = parser.method == HTTP_HEAD;
    request.get = request.head || parser.method == HTTP_GET;
    request.keep_alive = http_should_keep_alive(&parser) != 0 && parser.upgrade == 0;
    return 0;
  }

  static http_parser_settings settings() {
    http_parser_settings out;
    http_parser_settings_init(&out);
    out.on_url = [](http_parser* p, const char* at, std::size_t size) {
      of(p).target.append(at, size);
      return 0;
    };
    out.on_header_field = [](http_parser* p, const char* at, std::size_t size) {
      Impl& self = of(p);
      if (self.in_value) {
        self.end_header();
      }
      self.name.append(at, size);
      return 0;
    };
    out.on_header_value = [](http_parser* p, const char* at, std::size_t size) {
      of(p).in_value = true;
      of(p).value.append(at, size);
      return 0;
    };
    out.on_headers_complete = [](http_parser* p) { return of(p).take_head() == 0 ? 0 : -1; };
    out.on_message_complete = [](http_parser* p) {
      of(p).complete = true;
      http_parser_pause(p, 1);  // the rest belongs to the next request
      return 0;
    };
    return out;
  }
};

RequestParser::RequestParser() : impl_(std::make_unique<Impl>()) {}

RequestParser::~RequestParser() = default;
RequestParser::RequestParser(RequestParser&&) noexcept = default;
RequestParser& RequestParser::operator=(RequestParser&&) noexcept = default;

std::size_t RequestParser::feed(std::string_view bytes) {
  static const http_parser_settings kSettings = Impl::settings();
  Impl& self = *impl_;
  if (self.complete || self.refusal != 0) {
    return 0;
  }
  const std::size_t room = kRequestHeadBytesMax - self.bytes;
  const std::string_view part = bytes.substr(0, room);
  const std::size_t taken = http_parser_execute(&self.parser, &kSettings, part.data(), part.size());
  self.bytes += taken;
  if (self.complete) {
    return taken;
  }
  if (HTTP_PARSER_ERRNO(&self.parser) != HPE_OK && self.refusal == 0) {
    self.refusal = kBadRequest;
  } else if (self.refusal == 0 && self.bytes >= kRequestHeadBytesMax) {
    self.refusal = kHeadTooLarge;
  }
  return taken;
}

bool RequestParser::begun() const {
  return impl_->bytes > 0 && !impl_->complete;
}

bool RequestParser::complete() const {
  return impl_->complete;
}

int RequestParser::refusal() const {
  return impl_->refusal;
}

HttpRequest RequestParser::take() {
  HttpRequest out = std::move(impl_->request);
  impl_ = std::make_unique<Impl>();
  return out;
}

}  // namespace muster
