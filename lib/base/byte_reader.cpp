// SPDX-License-Identifier: Apache-2.0
#include "base/byte_reader.hpp"

#include <algorithm>
#include <utility>

namespace muster {

void ByteReader::fail(std::string fault) {
  if (fault_.empty()) {
    fault_ = std::move(fault);
    rest_ = {};
  }
}

std::string_view ByteReader::take(std::size_t size) {
  if (size > rest_.size()) {
    fail("truncated");
    return {};
  }
  const std::string_view out = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return out;
}

std::size_t ByteReader::take_count(std::string_view what, std::size_t most) {
  std::uint32_t count = 0;
  number(count);
  if (count > most) {
    fail("a list of " + std::to_string(count) + " " + std::string(what) + "; the limit is " +
         std::to_string(most));
    return 0;
  }
  return count;
}

void ByteReader::number(std::int32_t& value, std::int32_t least, std::int32_t most) {
  number(value);
  if (ok() && (value < least || value > most)) {
    fail("number " + std::to_string(value) + " must be between " + std::to_string(least) + " and " +
         std::to_string(most));
  }
}

void ByteReader::flag(bool& value) {
  std::uint8_t raw = 0;
  number(raw);
  if (raw > 1) {
    fail("invalid flag " + std::to_string(raw));
  }
  value = raw == 1;
}

// The text may be printed on a terminal, so it must not contain control characters.
void ByteReader::text(std::string& value, std::size_t most) {
  std::uint16_t length = 0;
  number(length);
  if (length > most) {
    fail("a string of " + std::to_string(length) + " bytes; the limit is " + std::to_string(most));
    return;
  }
  value = take(length);
  std::ranges::replace_if(value, is_control, ' ');
}

void ByteReader::texts(std::vector<std::string>& values, std::size_t count_max, std::size_t most) {
  const std::size_t count = take_count("lines", count_max);
  for (std::size_t i = 0; i < count && ok(); ++i) {
    text(values.emplace_back(), most);
  }
}

}  // namespace muster
