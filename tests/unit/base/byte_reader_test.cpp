// SPDX-License-Identifier: Apache-2.0
#include "base/byte_reader.hpp"

#include "support/catch.hpp"

using namespace muster;

namespace {

std::string bytes_of(auto... numbers) {
  std::string out;
  (append_int(out, numbers), ...);
  return out;
}

enum class Colour : std::uint8_t { red, green };

}  // namespace

TEST_CASE("byte reader: reads what was written, in order, to the last byte") {
  std::string bytes =
      bytes_of(std::uint32_t{7}, std::uint8_t{1}, std::uint8_t{1}, std::uint16_t{2});
  bytes += "ab";
  ByteReader reader(bytes);
  std::uint32_t number = 0;
  bool flag = false;
  auto colour = Colour::red;
  std::string text;
  reader.number(number);
  reader.flag(flag);
  reader.choice(colour, Colour::green);
  reader.text(text, 2);
  CHECK(reader.ok());
  CHECK(reader.left() == 0);
  CHECK(number == 7);
  CHECK(flag);
  CHECK(colour == Colour::green);
  CHECK(text == "ab");
}

TEST_CASE("byte reader: values out of range are faults") {
  const auto fault = [](const std::string& bytes, auto read) {
    ByteReader reader(bytes);
    read(reader);
    return reader.fault();
  };
  std::int32_t number = 0;
  bool flag = false;
  auto colour = Colour::red;
  std::string text;
  std::vector<std::string> texts;
  CHECK(fault(bytes_of(std::int32_t{10}), [&](auto& r) { r.number(number, 1, 9); }) ==
        "number 10 must be between 1 and 9");
  CHECK(fault(bytes_of(std::int32_t{9}), [&](auto& r) { r.number(number, 1, 9); }).empty());
  CHECK(fault(bytes_of(std::uint8_t{2}), [&](auto& r) { r.flag(flag); }) == "invalid flag 2");
  CHECK(fault(bytes_of(std::uint8_t{2}), [&](auto& r) { r.choice(colour, Colour::green); }) ==
        "invalid choice 2; the highest is 1");
  CHECK(colour == Colour::red);
  CHECK(fault(bytes_of(std::uint16_t{3}) + "abc", [&](auto& r) { r.text(text, 2); }) ==
        "a string of 3 bytes; the limit is 2");
  CHECK(fault(bytes_of(std::uint32_t{3}), [&](auto& r) { r.texts(texts, 2, 9); }) ==
        "a list of 3 lines; the limit is 2");
  CHECK(texts.empty());
}

TEST_CASE("byte reader: returns zeros after the end and after a fault") {
  const std::string bytes = bytes_of(std::uint8_t{5}, std::uint8_t{6}, std::uint8_t{7});
  ByteReader reader(bytes);
  bool flag = true;
  std::uint8_t number = 1;
  reader.flag(flag);
  reader.number(number);
  CHECK(number == 0);
  CHECK(reader.left() == 0);
  CHECK(reader.fault() == "invalid flag 5");

  ByteReader shorter(std::string_view(bytes).substr(1));
  std::uint32_t wide = 1;
  shorter.number(wide);
  CHECK(wide == 0);
  CHECK(shorter.fault() == "truncated");
}

TEST_CASE("byte reader: replaces terminal control characters with blanks") {
  const std::string bytes = bytes_of(std::uint16_t{4}) + "a\x1b\nb";
  ByteReader reader(bytes);
  std::string text;
  reader.text(text, 100);
  CHECK(text == "a  b");
}
