// SPDX-License-Identifier: Apache-2.0
// HttpSite: the interface from which HttpSession gets its content. Requests and responses are plain
// values, independent of sockets. The agent provides the real implementation, and tests provide
// others. Single-threaded.
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

// Shared because the same body may be sent to many clients at once.
using HttpBody = std::shared_ptr<const std::string>;

struct HttpResponse {
  int status = 200;
  std::string_view type = "text/plain; charset=utf-8";
  HttpBody body;
  std::string location;    // target of a redirect
  std::string set_cookie;  // empty if none
  // Send the server-sent events from `cursor` on instead of a body. The stream ends with the job
  // or, without `follow`, after the existing events.
  bool events = false;
  bool follow = true;
  std::uint64_t cursor = 0;
  // If set, the connection stays open until the client closes it, without further data. The object
  // is released then.
  std::shared_ptr<void> held{};
};

// Creates a response with one line of text.
[[nodiscard]] HttpResponse plain_response(int status, std::string_view text);

class HttpSite {
 public:
  virtual ~HttpSite() = default;
  [[nodiscard]] virtual HttpResponse answer(const HttpRequest& request) = 0;
  // Returns a few KiB of server-sent events from `cursor` on, and advances `cursor`. Empty if there
  // are no further events.
  [[nodiscard]] virtual std::string events_from(std::uint64_t& cursor) = 0;
  // True if no more events will follow.
  [[nodiscard]] virtual bool events_over() const = 0;
};

}  // namespace muster
