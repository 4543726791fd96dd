// SPDX-License-Identifier: Apache-2.0
// HttpSession: the protocol state of one connection. It maps input bytes to output bytes and sets a
// deadline. Requests are answered one at a time; further input waits. It uses neither sockets nor a
// clock; HttpServer provides both. Pure.
#pragma once

#include "base/time.hpp"
#include "http/access.hpp"
#include "http/request_parser.hpp"
#include "http/site.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace muster {

// Time limit for a request, from its first byte to its last.
inline constexpr Duration kRequestTimeout = std::chrono::seconds(10);
// Time limit for an idle connection, before the first request and between two requests.
inline constexpr Duration kIdleTimeout = std::chrono::seconds(60);
// Time limit for a client that does not read its response.
inline constexpr Duration kSendTimeout = std::chrono::seconds(10);
// Time limit for a complete response, except an event stream. Prevents a client from occupying a
// connection by reading byte by byte.
inline constexpr Duration kAnswerTimeout = std::chrono::seconds(60);
// Time limit for the client to close the connection after the last response.
inline constexpr Duration kLingerTimeout = std::chrono::seconds(2);
// On a stream without events, an empty line is sent at this interval to detect dead clients.
inline constexpr Duration kHeartbeat = std::chrono::seconds(15);

// Event streams have no time limit, so their number is limited to leave connections for other
// requests.
inline constexpr std::size_t kHttpStreamsMax = 48;

struct HttpCounts {
  std::uint64_t answered = 0;
  std::uint64_t refused = 0;
  std::size_t streams = 0;  // number of open streams; set by the server
};

class HttpSession {
 public:
  HttpSession(HttpSite& site, const HttpAccess& access, HttpCounts& counts, TimePoint now);

  // Processes received bytes. Must not be called while output is pending.
  void take(std::string_view bytes, TimePoint now);
  // Pending output. The connection is finished if this is empty and close_wanted() is true.
  [[nodiscard]] std::string_view output() const;
  // Call after this many output bytes have been sent.
  void sent(std::size_t bytes, TimePoint now);
  // Fetches new events for an open stream and sends heartbeats.
  void poll_events(TimePoint now);

  [[nodiscard]] bool close_wanted() const { return closing_; }

  // True if the connection stays open after its response.
  [[nodiscard]] bool streams() const { return streaming_ || held_; }

  // True if closing the connection now would not lose a response.
  [[nodiscard]] bool is_idle() const { return output().empty() && !streaming_ && !held_; }

  // When to close the connection; TimePoint::max() means never.
  [[nodiscard]] TimePoint deadline() const;

  [[nodiscard]] TimePoint last_active() const { return last_active_; }

 private:
  void go_on(TimePoint now);
  void answer(const HttpRequest& request, TimePoint now);
  void respond(const HttpResponse& response, bool head, bool keep_alive);

  HttpSite& site_;
  HttpAccess access_;
  HttpCounts& counts_;
  RequestParser parser_;
  std::string input_;  // bytes after the current request
  std::string head_;   // response headers; for a stream also its events
  HttpBody body_;
  std::shared_ptr<void> held_;  // until the connection is closed
  std::size_t sent_ = 0;        // bytes sent of head_ and then of body_
  bool closing_ = false;
  bool streaming_ = false;
  bool follow_ = true;
  std::uint64_t cursor_ = 0;
  TimePoint request_begun_;
  TimePoint answer_begun_;
  TimePoint last_active_;
};

}  // namespace muster
