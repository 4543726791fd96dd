// SPDX-License-Identifier: Apache-2.0
// HttpStream: one blocking GET request over a connected socket, for musterctl. The response is
// untrusted, so it is validated and its size is limited. Resource.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace muster {

// Size limit for a response that is read as a whole. An event stream has no limit: it may last as
// long as its job.
inline constexpr std::size_t kAnswerBytesMax = std::size_t{64} << 20;

class HttpStream {
 public:
  // `socket` must be connected and non-blocking. `key` is a bearer token, or empty. Returns after
  // the response headers have arrived. Errors: timed_out, closed, protocol.
  [[nodiscard]] static Result<HttpStream> get(UniqueFd socket,
                                              std::string_view host,
                                              std::string_view target,
                                              TimePoint deadline,
                                              std::string_view key = {});

  // For one thread that queries several servers. begin sends the request. take_ready reads the
  // available data without waiting and returns true once the response is complete. read_all then
  // returns the response.
  [[nodiscard]] static Result<HttpStream> begin(UniqueFd socket,
                                                std::string_view host,
                                                std::string_view target,
                                                TimePoint deadline,
                                                std::string_view key = {});
  [[nodiscard]] Result<bool> take_ready();

  ~HttpStream();
  HttpStream(HttpStream&&) noexcept;
  HttpStream& operator=(HttpStream&&) noexcept;

  [[nodiscard]] int status() const;

  // The next part of the body as it arrives; empty at the end. Errors: the same as for get.
  [[nodiscard]] Result<std::string> read_some(TimePoint deadline);

  // The rest of the body, which may have at most kAnswerBytesMax bytes.
  [[nodiscard]] Result<std::string> read_all(TimePoint deadline);

  // Readable when read_some would not block.
  [[nodiscard]] int fd() const;

 private:
  struct Impl;
  explicit HttpStream(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Size limit for one line of a stream. It is larger than any event that muster emits.
inline constexpr std::size_t kEventLineBytesMax = std::size_t{4} << 20;

// Extracts the data lines of server-sent events from a stream that arrives in pieces.
class EventLines {
 public:
  // Returns the data lines that `part` completes, each with its line break. Error: protocol, if a
  // line is too long.
  [[nodiscard]] Result<std::string> feed(std::string_view part);

 private:
  std::string rest_;  // start of an unfinished line
};

}  // namespace muster
