// SPDX-License-Identifier: Apache-2.0
// HttpSite: the interface through which HttpSession gets content. Requests and responses are plain
// values, independent of sockets. The agent implements the real site, tests implement others.
// Single-threaded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace muster {

struct HttpRequest {
  bool get = false;   // GET or HEAD; other methods are rejected before they reach the site
  bool head = false;  // HEAD
  std::string path;   // "/v1/status", without the query
  std::string query;  // "follow=0"
  std::string host;   // the Host header
  bool has_host = false;
  std::string last_event_id;
  std::string authorization;
  std::string cookie;
  bool keep_alive = true;
};

// Shared, since one body may be sent to many clients at a time.
using HttpBody = std::shared_ptr<const std::string>;

struct HttpResponse {
  int status = 200;
  std::string_view type = "text/plain; charset=utf-8";
  HttpBody body;
  std::string location;    // for a redirect
  std::string set_cookie;  // empty: none
  // Send server-sent events from `cursor` on instead of a body. The stream ends with the job or,
  // without `follow`, after all present events.
  bool events = false;
  bool follow = true;
  std::uint64_t cursor = 0;
};

// A response with one line of text.
[[nodiscard]] HttpResponse plain_response(int status, std::string_view text);

class HttpSite {
 public:
  virtual ~HttpSite() = default;
  [[nodiscard]] virtual HttpResponse answer(const HttpRequest& request) = 0;
  // A few KiB of server-sent events from `cursor` on; advances `cursor`. Empty if there are no
  // more.
  [[nodiscard]] virtual std::string events_from(std::uint64_t& cursor) = 0;
  // True if no further event will follow.
  [[nodiscard]] virtual bool events_over() const = 0;
};

}  // namespace muster
