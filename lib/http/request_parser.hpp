// SPDX-License-Identifier: Apache-2.0
// RequestParser: parses one request with libhttp_parser. The bytes are untrusted: a request that
// exceeds the limit or is not valid HTTP is rejected with a response status. Pure.
#pragma once

#include "http/site.hpp"

#include <cstddef>
#include <memory>
#include <string_view>

namespace muster {

// Limit on the size of the request line and the headers together.
inline constexpr std::size_t kRequestHeadBytesMax = 8192;

class RequestParser {
 public:
  RequestParser();
  ~RequestParser();
  RequestParser(RequestParser&&) noexcept;
  RequestParser& operator=(RequestParser&&) noexcept;

  // Returns the number of bytes that belong to this request; the rest belongs to the next request.
  [[nodiscard]] std::size_t feed(std::string_view bytes);

  // True if the request has started but is not complete.
  [[nodiscard]] bool begun() const;
  [[nodiscard]] bool complete() const;
  // The response status if the request is invalid, otherwise 0.
  [[nodiscard]] int refusal() const;
  // Returns the complete request and resets the parser for the next one.
  [[nodiscard]] HttpRequest take();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
