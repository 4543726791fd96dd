// SPDX-License-Identifier: Apache-2.0
// RequestParser: the bytes of one request into a value, by libhttp_parser. Bytes come from anybody:
// what is longer than the limit, or no HTTP, is refused with the status of the answer. Pure.
#pragma once

#include "http/site.hpp"

#include <cstddef>
#include <memory>
#include <string_view>

namespace muster {

// First line and headers together.
inline constexpr std::size_t kRequestHeadBytesMax = 8192;

class RequestParser {
 public:
  RequestParser();
  ~RequestParser();
  RequestParser(RequestParser&&) noexcept;
  RequestParser& operator=(RequestParser&&) noexcept;

  // Returns how many bytes belong to this request; the rest belongs to the next one.
  [[nodiscard]] std::size_t feed(std::string_view bytes);

  // Some bytes have come, but not all.
  [[nodiscard]] bool begun() const;
  [[nodiscard]] bool complete() const;
  // The status of the answer that refuses it; 0: nothing is wrong so far.
  [[nodiscard]] int refusal() const;
  // Once it is complete; begins the next one.
  [[nodiscard]] HttpRequest take();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
