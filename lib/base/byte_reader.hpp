// SPDX-License-Identifier: Apache-2.0
// ByteReader: base class of all parsers for messages from other nodes. It never reads past the end
// and checks each value. After the first fault, all calls do nothing and return zero. Pure.
#pragma once

#include "base/bytes.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

class ByteReader {
 public:
  static constexpr bool kWrites = false;

  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  void number(std::integral auto& value) {
    using Value = std::remove_reference_t<decltype(value)>;
    const std::string_view raw = take(sizeof(Value));
    value = raw.empty() ? Value{} : load_int<Value>(raw);
  }

  void number(std::int32_t& value, std::int32_t least, std::int32_t most);
  void flag(bool& value);

  // Reads a 16-bit length and a text of that length. Replaces control characters with spaces.
  void text(std::string& value, std::size_t most);
  void texts(std::vector<std::string>& values, std::size_t count_max, std::size_t most);

  template <class Enum>
  void choice(Enum& value, Enum last) {
    std::uint8_t raw = 0;
    number(raw);
    if (raw > static_cast<std::uint8_t>(last)) {
      fail("invalid choice " + std::to_string(raw) + "; the highest is " +
           std::to_string(static_cast<unsigned>(last)));
      raw = 0;
    }
    value = static_cast<Enum>(raw);
  }

  [[nodiscard]] bool ok() const { return fault_.empty(); }

  // The first fault, or empty if there is none.
  [[nodiscard]] const std::string& fault() const { return fault_; }

  [[nodiscard]] std::size_t left() const { return rest_.size(); }

 protected:
  // Empty if fewer bytes remain.
  [[nodiscard]] std::string_view take(std::size_t size);
  // `what` names the list in the fault message.
  [[nodiscard]] std::size_t take_count(std::string_view what, std::size_t most);
  void fail(std::string fault);

  // Calls fields(self, item) for each item. `self` is the most derived reader.
  template <class Self, class Item>
  void list_by(Self& self, std::vector<Item>& items, std::size_t most) {
    const std::size_t count = take_count("entries", most);
    for (std::size_t i = 0; i < count && ok(); ++i) {
      fields(self, items.emplace_back());
    }
  }

 private:
  std::string_view rest_;
  std::string fault_;
};

// Includes DEL (0x7f).
[[nodiscard]] constexpr bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

}  // namespace muster
