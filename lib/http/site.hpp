// SPDX-License-Identifier: Apache-2.0
// HttpSite: what is served, as HttpSession asks for it. Requests and responses are values; nothing
// here knows a socket. The agent has the real site, tests have others. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace muster {

struct HttpRequest {
  bool get = false;   // GET or HEAD; other methods are refused before the site is asked
  bool head = false;  // HEAD
  std::string path;   // "/v1/status", without the query
  std::string query;  // "follow=0"
  std::string host;   // of the Host header
  bool has_host = false;
  std::string last_event_id;
  std::string authorization;
  std::string cookie;
  bool keep_alive = true;
};

// Shared, since one body may go to many at a time.
using HttpBody = std::shared_ptr<const std::string>;

struct HttpResponse {
  int status = 200;
  std::string_view type = "text/plain; charset=utf-8";
  HttpBody body;
  std::string location;    // of a redirect
  std::string set_cookie;  // empty: none
  // Server-sent events from `cursor` on instead of a body; they end with the job, or without
  // `follow` when all that are there were sent.
  bool events = false;
  bool follow = true;
  std::uint64_t cursor = 0;
};

// A short answer in one line.
[[nodiscard]] HttpResponse plain_response(int status, std::string_view text);

class HttpSite {
 public:
  virtual ~HttpSite() = default;
  [[nodiscard]] virtual HttpResponse answer(const HttpRequest& request) = 0;
  // Some KiB of server-sent events from `cursor` on, which is moved behind them. Empty: no more.
  [[nodiscard]] virtual std::string events_from(std::uint64_t& cursor) = 0;
  // No event will follow.
  [[nodiscard]] virtual bool events_over() const = 0;
};

}  // namespace muster
