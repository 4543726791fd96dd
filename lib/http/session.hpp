// SPDX-License-Identifier: Apache-2.0
// HttpSession: one connection's talk: bytes in, bytes out, and until when it may go on like this.
// One request is answered at a time; the bytes behind it wait. No sockets and no clock: HttpServer
// has them. Pure.
#pragma once

#include "base/time.hpp"
#include "http/access.hpp"
#include "http/request_parser.hpp"
#include "http/site.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster {

// From its first byte to its last one.
inline constexpr Duration kRequestTimeout = std::chrono::seconds(10);
// Between two requests, and before the first one.
inline constexpr Duration kIdleTimeout = std::chrono::seconds(60);
// For a client that takes no byte of its answer.
inline constexpr Duration kSendTimeout = std::chrono::seconds(10);
// For all of an answer but an open stream: nobody may hold a place by taking it byte by byte.
inline constexpr Duration kAnswerTimeout = std::chrono::seconds(60);
// For the other side to close, after the last answer.
inline constexpr Duration kLingerTimeout = std::chrono::seconds(2);
// An open stream without events gets an empty line so often, which shows who is gone.
inline constexpr Duration kHeartbeat = std::chrono::seconds(15);

// Open streams stay for as long as their clients like: they must not take all places.
inline constexpr std::size_t kHttpStreamsMax = 48;

struct HttpCounts {
  std::uint64_t answered = 0;
  std::uint64_t refused = 0;
  std::size_t streams = 0;  // open now; the server counts them
};

class HttpSession {
 public:
  HttpSession(HttpSite& site, const HttpAccess& access, HttpCounts& counts, TimePoint now);

  // What came. Not called while there is output.
  void take(std::string_view bytes, TimePoint now);
  // Not yet sent. Where there is none, and close_wanted, the connection is over.
  [[nodiscard]] std::string_view output() const;
  // So many bytes of it are on their way.
  void sent(std::size_t bytes, TimePoint now);
  // There may be events for an open stream; also the heartbeat.
  void poll_events(TimePoint now);

  [[nodiscard]] bool close_wanted() const { return closing_; }

  [[nodiscard]] bool streams() const { return streaming_; }

  // Nobody loses an answer if it is closed now.
  [[nodiscard]] bool is_idle() const { return output().empty() && !streaming_; }

  // Then it is to be closed; TimePoint::max(): never.
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
  std::string input_;  // behind the request that is being answered
  std::string head_;   // of the answer; for a stream also its events
  HttpBody body_;
  std::size_t sent_ = 0;  // of head_ and then of body_
  bool closing_ = false;
  bool streaming_ = false;
  bool follow_ = true;
  std::uint64_t cursor_ = 0;
  TimePoint request_begun_;
  TimePoint answer_begun_;
  TimePoint last_active_;
};

}  // namespace muster
