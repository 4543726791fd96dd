// SPDX-License-Identifier: Apache-2.0
#include "hang/gather/pickle.hpp"

#include <fmt/core.h>

#include <bit>
#include <optional>
#include <unordered_map>
#include <utility>

namespace muster::hang {

using Kind = PickleValue::Kind;

namespace {

// Recalling a value from the memo pushes it without creating a value, so the limit on values does
// not limit the stack.
constexpr std::size_t kStackMax = 4 * kPickleValuesMax;
constexpr std::size_t kMarksMax = 1000;  // limit on the nesting depth

}  // namespace

// A stack machine, as the pickle format requires. Stops at the first error.
class PickleReader {
 public:
  explicit PickleReader(std::string_view bytes) : bytes_(bytes) {}

  Result<Pickle> run() {
    while (!done_ && !wrong_) {
      // An error reports the offset of the opcode, not of its arguments.
      const std::size_t before = at_;
      const auto opcode = static_cast<unsigned char>(number(1));
      if (!wrong_ && !push_constant(opcode) && !collect(opcode) && !other(opcode)) {
        wrong_ = true;
      }
      last_ = before;
    }
    if (wrong_ || stack_.size() != 1 || !marks_.empty()) {
      return failure(Errc::protocol, fmt::format("unexpected data at byte {}", last_));
    }
    out_.root_ = stack_.back();
    return std::move(out_);
  }

 private:
  // Reads a little-endian number.
  std::uint64_t number(std::size_t size) {
    const std::string_view bytes = take(size);
    std::uint64_t out = 0;
    for (std::size_t i = bytes.size(); i-- > 0;) {
      out = out << 8U | static_cast<unsigned char>(bytes[i]);
    }
    return out;
  }

  std::string_view take(std::size_t size) {
    if (size > bytes_.size() - at_) {
      wrong_ = true;
      return {};
    }
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }

  bool push(PickleValue value) {
    if (out_.values_.size() == kPickleValuesMax) {
      return false;
    }
    stack_.push_back(static_cast<std::uint32_t>(out_.values_.size()));
    out_.values_.push_back(std::move(value));
    return true;
  }

  bool push_integer(std::int64_t value) { return push({.kind = Kind::integer, .integer = value}); }

  bool push_boolean(bool value) { return push({.kind = Kind::boolean, .integer = value ? 1 : 0}); }

  // LONG1: a length, followed by a signed integer with this number of bytes.
  bool push_long() {
    const auto size = static_cast<std::size_t>(number(1));
    if (size > sizeof(std::int64_t)) {
      return false;
    }
    std::uint64_t value = number(size);
    const bool negative = size > 0 && (value >> (8 * size - 1) & 1U) != 0;
    if (negative && size < sizeof(value)) {
      value |= ~std::uint64_t{0} << (8 * size);
    }
    return push_integer(static_cast<std::int64_t>(value));
  }

  // BINFLOAT: big-endian, unlike all other numbers in the format.
  bool push_real() {
    std::uint64_t bits = 0;
    for (const char byte : take(sizeof(double))) {
      bits = bits << 8U | static_cast<unsigned char>(byte);
    }
    return push({.kind = Kind::real, .real = std::bit_cast<double>(bits)});
  }

  // Opcodes: N is None, 0x88 True and 0x89 False. K and M are unsigned integers of 1 and 2 bytes, J
  // is a signed one of 4 bytes, and 0x8a is LONG1. G is BINFLOAT and X BINUNICODE. The brackets are
  // an empty dict, list and tuple.
  bool push_constant(unsigned char opcode) {
    switch (opcode) {
      case 'N':
        return push({});
      case 0x88:
        return push_boolean(true);
      case 0x89:
        return push_boolean(false);
      case 'K':
        return push_integer(static_cast<std::int64_t>(number(1)));
      case 'M':
        return push_integer(static_cast<std::int64_t>(number(2)));
      case 'J':
        return push_integer(static_cast<std::int32_t>(number(4)));
      case 0x8a:
        return push_long();
      case 'G':
        return push_real();
      case 'X':
        return push({.kind = Kind::text, .text = take(static_cast<std::size_t>(number(4)))});
      case '}':
        return push({.kind = Kind::dict});
      case ']':
      case ')':
        return push({.kind = Kind::list});
      default:
        return false;
    }
  }

  // Pops the last `count` items off the stack. None if there is a mark between them.
  std::optional<std::vector<std::uint32_t>> pop(std::size_t count) {
    // Items before the last mark belong to an outer container.
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() - floor < count) {
      return std::nullopt;
    }
    const auto begin = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<std::uint32_t> out(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    return out;
  }

  std::optional<std::vector<std::uint32_t>> pop_to_mark() {
    if (marks_.empty()) {
      return std::nullopt;
    }
    auto out = pop(stack_.size() - marks_.back());
    marks_.pop_back();
    return out;
  }

  bool add_to(Kind kind, std::optional<std::vector<std::uint32_t>> items) {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (!items || stack_.size() <= floor || (kind == Kind::dict && items->size() % 2 != 0)) {
      return false;
    }
    // Now that the items are popped, their container is on top of the stack.
    PickleValue& into = out_.values_[stack_.back()];
    into.items.insert(into.items.end(), items->begin(), items->end());
    return into.kind == kind;
  }

  bool push_tuple(std::optional<std::vector<std::uint32_t>> items) {
    return items && push({.kind = Kind::list, .items = std::move(*items)});
  }

  // Opcodes: a is APPEND, e APPENDS, s SETITEM, u SETITEMS and t TUPLE. 0x85 to 0x87 are tuples of
  // 1 to 3 items.
  bool collect(unsigned char opcode) {
    switch (opcode) {
      case 'a':
        return add_to(Kind::list, pop(1));
      case 'e':
        return add_to(Kind::list, pop_to_mark());
      case 's':
        return add_to(Kind::dict, pop(2));
      case 'u':
        return add_to(Kind::dict, pop_to_mark());
      case 't':
        return push_tuple(pop_to_mark());
      case 0x85:
      case 0x86:
      case 0x87:
        return push_tuple(pop(opcode - 0x84U));
      default:
        return false;
    }
  }

  bool remember(std::uint64_t name) {
    if (stack_.empty() || memo_.size() == kPickleValuesMax) {
      return false;
    }
    memo_[name] = stack_.back();
    return true;
  }

  // A list may contain itself, because it may be stored in the memo before it is filled.
  bool recall(std::uint64_t name) {
    const auto found = memo_.find(name);
    if (found == memo_.end() || stack_.size() == kStackMax) {
      return false;
    }
    stack_.push_back(found->second);
    return true;
  }

  // Opcodes: ( is MARK, q and r store the top of the stack in the memo, h and j recall it, and . is
  // STOP.
  bool other(unsigned char opcode) {
    switch (opcode) {
      case 0x80:  // protocol version
        return number(1) == 2;
      case '(':
        marks_.push_back(stack_.size());
        return marks_.size() <= kMarksMax;
      case 'q':
        return remember(number(1));
      case 'r':
        return remember(number(4));
      case 'h':
        return recall(number(1));
      case 'j':
        return recall(number(4));
      case '.':
        done_ = true;
        return true;
      default:
        return false;
    }
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  std::size_t last_ = 0;
  bool wrong_ = false;
  bool done_ = false;
  Pickle out_;
  std::vector<std::uint32_t> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, std::uint32_t> memo_;
};

Result<Pickle> Pickle::read(std::string_view bytes) {
  if (bytes.size() > kPickleBytesMax) {
    return failure(Errc::protocol, fmt::format("it is larger than {} bytes", kPickleBytesMax));
  }
  return PickleReader(bytes).run();
}

const PickleValue* Pickle::find(const PickleValue& dict, std::string_view key) const {
  const PickleValue* out = nullptr;
  for (std::size_t i = 0; dict.kind == Kind::dict && i + 1 < dict.items.size(); i += 2) {
    const PickleValue& name = at(dict.items[i]);
    if (name.kind == Kind::text && name.text == key) {
      out = &at(dict.items[i + 1]);  // the last value of a duplicate key
    }
  }
  return out;
}

}  // namespace muster::hang
