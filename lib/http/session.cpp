// SPDX-License-Identifier: Apache-2.0
#include "http/session.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace muster {
namespace {

constexpr int kRefused = 400;  // the lowest status of a refusal

std::string_view reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 303:
      return "See Other";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 413:
      return "Content Too Large";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Error";
  }
}

// The page loads nothing from other hosts. Other sites must not frame it or read it.
constexpr std::string_view kSecurity =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "X-Frame-Options: DENY\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Cache-Control: no-store\r\n";

std::string head_of(const HttpResponse& response, bool keep_alive) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\n{}",
                                response.status,
                                reason_of(response.status),
                                response.type,
                                kSecurity);
  if (response.status == 405) {
    out += "Allow: GET, HEAD\r\n";
  }
  if (response.status == 401) {
    out += "WWW-Authenticate: Bearer\r\n";
  }
  if (!response.location.empty()) {
    out += fmt::format("Location: {}\r\n", response.location);
  }
  if (!response.set_cookie.empty()) {
    out += fmt::format("Set-Cookie: {}\r\n", response.set_cookie);
  }
  if (!response.events) {
    out += fmt::format("Content-Length: {}\r\n", response.body ? response.body->size() : 0);
  }
  return out + (keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n");
}

}  // namespace

HttpResponse plain_response(int status, std::string_view text) {
  HttpResponse out;
  out.status = status;
  out.body = std::make_shared<const std::string>(std::string(text) + "\n");
  return out;
}

HttpSession::HttpSession(HttpSite& site,
                         const HttpAccess& access,
                         HttpCounts& counts,
                         TimePoint now)
    : site_(site),
      access_(access),
      counts_(counts),
      request_begun_(now),
      answer_begun_(now),
      last_active_(now) {}

std::string_view HttpSession::output() const {
  if (sent_ < head_.size()) {
    return std::string_view(head_).substr(sent_);
  }
  return body_ ? std::string_view(*body_).substr(sent_ - head_.size()) : std::string_view();
}

void HttpSession::take(std::string_view bytes, TimePoint now) {
  last_active_ = now;
  if (closing_ || streams()) {
    return;  // ignore input after the last response and during a stream
  }
  if (!parser_.begun()) {
    request_begun_ = now;
  }
  input_ += bytes;
  go_on(now);
}

void HttpSession::sent(std::size_t bytes, TimePoint now) {
  last_active_ = now;
  sent_ += bytes;
  if (!output().empty()) {
    return;
  }
  head_.clear();
  body_.reset();
  sent_ = 0;
  if (streaming_) {
    poll_events(now);
  } else if (!closing_ && !held_) {
    request_begun_ = now;
    go_on(now);
  }
}

// Parses buffered input up to the end of the next request and answers the request.
void HttpSession::go_on(TimePoint now) {
  answer_begun_ = now;
  const std::size_t taken = parser_.feed(input_);
  input_.erase(0, taken);
  if (parser_.complete()) {
    answer(parser_.take(), now);
  } else if (parser_.refusal() != 0) {
    ++counts_.refused;
    respond(plain_response(parser_.refusal(), "invalid or unsupported request"), false, false);
  }
}

void HttpSession::answer(const HttpRequest& request, TimePoint now) {
  if (const auto refusal = refuse(request, access_)) {
    ++(refusal->status < kRefused ? counts_.answered : counts_.refused);
    respond(*refusal, request.head, false);
    return;
  }
  const HttpResponse response = site_.answer(request);
  const bool stays = response.events || response.held;
  if (stays && counts_.streams >= kHttpStreamsMax) {
    ++counts_.refused;
    respond(plain_response(503, "too many open streams"), request.head, false);
    return;
  }
  ++counts_.answered;
  const bool keep_alive = response.held || (request.keep_alive && !response.events);
  respond(response, request.head, keep_alive);
  held_ = response.held;
  if (response.events && !request.head) {
    closing_ = false;
    streaming_ = true;
    follow_ = response.follow;
    cursor_ = response.cursor;
    last_active_ = now;
  }
}

void HttpSession::respond(const HttpResponse& response, bool head, bool keep_alive) {
  head_ = head_of(response, keep_alive);
  body_ = head ? nullptr : response.body;
  sent_ = 0;
  closing_ = !keep_alive;
}

void HttpSession::poll_events(TimePoint now) {
  if (!streaming_ || !output().empty()) {
    return;
  }
  head_ = site_.events_from(cursor_);
  sent_ = 0;
  if (head_.empty() && (!follow_ || site_.events_over())) {
    streaming_ = false;
    closing_ = true;
  } else if (head_.empty() && now - last_active_ > kHeartbeat) {
    head_ = ":\n\n";
  }
  if (!head_.empty()) {
    last_active_ = now;
  }
}

TimePoint HttpSession::deadline() const {
  if (!output().empty()) {
    const TimePoint stuck = last_active_ + kSendTimeout;
    return streaming_ ? stuck : std::min(stuck, answer_begun_ + kAnswerTimeout);
  }
  if (closing_) {
    return last_active_ + kLingerTimeout;
  }
  if (streams()) {
    return TimePoint::max();
  }
  return parser_.begun() ? request_begun_ + kRequestTimeout : last_active_ + kIdleTimeout;
}

}  // namespace muster
