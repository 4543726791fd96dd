// SPDX-License-Identifier: Apache-2.0
// FieldReader: the archive that reads the body of one frame (round_fields.hpp). It never goes past
// the end and checks each value; after the first fault all else does nothing. Used by RoundDecoder
// only. Pure.
#pragma once

#include "base/bytes.hpp"
#include "rendezvous/wire/round_fields.hpp"
#include "rendezvous/wire/round_limits.hpp"

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster {

class FieldReader {
 public:
  static constexpr bool kWrites = false;

  explicit FieldReader(std::string_view body) : rest_(body) {}

  void number(std::integral auto& value) {
    using Value = std::remove_reference_t<decltype(value)>;
    const std::string_view raw = take(sizeof(Value));
    value = raw.empty() ? Value{} : load_int<Value>(raw);
  }

  void number(std::int32_t& value, std::int32_t least, std::int32_t most);
  void flag(bool& value);
  void duration(Duration& value, Duration least = {});
  // `before`: the same field of the entry before in a list.
  void name(std::string& value, std::string_view before = {});
  void address(std::string& value, std::string_view before = {});
  void text(std::string& value);
  void blob(std::string& value);
  void texts(std::vector<std::string>& values, std::size_t most);
  void ports(std::vector<std::uint16_t>& ports);
  void nodes(std::vector<NodeInfo>& nodes);
  void round(RoundPtr& round);

  template <class Enum>
  void choice(Enum& value, Enum last) {
    std::uint8_t raw = 0;
    number(raw);
    if (raw > static_cast<std::uint8_t>(last)) {
      fail("a choice of " + std::to_string(raw) + "; the last one is " +
           std::to_string(static_cast<unsigned>(last)));
      raw = 0;
    }
    value = static_cast<Enum>(raw);
  }

  template <class Item>
  void list(std::vector<Item>& items, std::size_t most) {
    const std::size_t count = take_count("entries", most);
    for (std::size_t i = 0; i < count && ok(); ++i) {
      fields(*this, items.emplace_back());
    }
  }

  [[nodiscard]] bool ok() const { return fault_.empty(); }

  [[nodiscard]] const std::string& fault() const { return fault_; }

  [[nodiscard]] std::size_t left() const { return rest_.size(); }

 private:
  [[nodiscard]] std::string_view take(std::size_t size);
  [[nodiscard]] std::size_t take_count(std::string_view what, std::size_t most);
  void prefixed(std::string& value, std::string_view before, std::size_t most);
  void fail(std::string fault);

  std::string_view rest_;
  std::string fault_;
};

}  // namespace muster
