// SPDX-License-Identifier: Apache-2.0
// HttpStream: one GET over a connected socket, for programs that may wait (musterctl). The answer
// comes from another program and is checked and bounded like any bytes from outside. Resource.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace muster {

// Of an answer that is read as a whole; a stream of events may go on for as long as its job.
inline constexpr std::size_t kAnswerBytesMax = std::size_t{64} << 20;

class HttpStream {
 public:
  // `socket` is connected and non-blocking; `key` is a bearer token, empty for none. Returns when
  // the head of the answer is there. Errors: timed_out, closed, protocol.
  [[nodiscard]] static Result<HttpStream> get(UniqueFd socket,
                                              std::string_view host,
                                              std::string_view target,
                                              TimePoint deadline,
                                              std::string_view key = {});

  // For one thread that queries several servers: begin sends the request; take_ready reads what has
  // arrived, without waiting, and returns whether the answer is complete. read_all then returns it.
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

  // The next part of the body, as it comes; empty at its end. Error: as get.
  [[nodiscard]] Result<std::string> read_some(TimePoint deadline);

  // All of the rest, if it is no more than kAnswerBytesMax.
  [[nodiscard]] Result<std::string> read_all(TimePoint deadline);

  // Readable when read_some would not wait.
  [[nodiscard]] int fd() const;

 private:
  struct Impl;
  explicit HttpStream(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Of one line of a stream: more than any event of ours has.
inline constexpr std::size_t kEventLineBytesMax = std::size_t{4} << 20;

// The data of server-sent events, one for each event, from the parts of a stream as they come.
class EventLines {
 public:
  // The data lines that `part` completes, each with its line break. Error: protocol, where a line
  // does not end.
  [[nodiscard]] Result<std::string> feed(std::string_view part);

 private:
  std::string rest_;  // of an unfinished line
};

}  // namespace muster
