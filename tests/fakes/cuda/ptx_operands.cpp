// SPDX-License-Identifier: Apache-2.0
// The operands of instructions: registers, constants, addresses.
#include "fakes/cuda/ptx_kernel.hpp"

#include <charconv>

namespace muster::fake {
namespace {

constexpr std::uint64_t kOffsetMax = 0x7fffffff;

}  // namespace

bool KernelParser::memory(const Form& form) {
  Instruction& made = add(form.op);
  made.bytes = form.bytes;
  made.mask = mask_of(form.operands[0]);
  if (form.op == Op::load) {
    made.targets = form.count;
    made.sources = 1;
    return moved(form, made.to) && words_.need(",") && address() && words_.need(";");
  }
  made.sources = static_cast<std::uint8_t>(form.count + 1);
  return address() && words_.need(",") && moved(form, std::span(made.from).subspan(1)) &&
         words_.need(";");
}

bool KernelParser::moved(const Form& form, std::span<SlotNumber> slots) {
  if (form.count == 1) {
    return operand(form.operands[0], slots[0]);
  }
  for (std::size_t i = 0; i < form.count; ++i) {
    if (!words_.need(i == 0 ? "{" : ",") || !operand(form.operands[0], slots[i])) {
      return false;
    }
  }
  return words_.need("}");
}

bool KernelParser::address() {
  Instruction& made = kernel_.code.back();
  std::uint64_t offset = 0;
  if (!words_.need("[") || !operand('L', made.from[0]) || (words_.skip("+") && !number(offset))) {
    return false;
  }
  made.offset = static_cast<std::uint32_t>(offset);
  return (offset <= kOffsetMax || words_.fail("the offset is too big")) && words_.need("]");
}

bool KernelParser::operand(char letter, SlotNumber& slot) {
  const auto& word = words_.peek();
  if (takes_constant(letter) && (word.kind == Word::Kind::number || word.text == "-")) {
    return constant(letter, slot);
  }
  std::string_view name;
  if (static_cast<SlotKind>(letter) == SlotKind::parameter) {
    return words_.need("[") && words_.need(Word::Kind::name, name) && known(letter, name, slot) &&
           words_.need("]");
  }
  return words_.need(Word::Kind::name, name) && known(letter, name, slot);
}

bool KernelParser::constant(char letter, SlotNumber& slot) {
  const bool negative = words_.skip("-");
  std::uint64_t value = 0;
  if (!number(value)) {
    return false;
  }
  const std::uint64_t mask = mask_of(letter);
  if (value > (negative ? mask / 2 + 1 : mask)) {
    return words_.fail("the number does not fit into its type");
  }
  slot = static_cast<SlotNumber>(kernel_.slots.size());
  kernel_.slots.push_back({"", SlotKind::constant, (negative ? 0 - value : value) & mask});
  return kernel_.slots.size() < kSlotsMax || words_.fail("more registers than the fake has");
}

// A decimal number that begins with 0 would be octal.
bool KernelParser::number(std::uint64_t& value) {
  std::string_view text;
  if (!words_.need(Word::Kind::number, text)) {
    return false;
  }
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  const auto digits = hex ? text.substr(2) : text;
  const auto [end, code] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, hex ? 16 : 10);
  const bool octal = !hex && text.size() > 1 && text.starts_with('0');
  return (code == std::errc() && end == digits.data() + digits.size() && !octal) ||
         words_.fail(quoted(text) + " is no number that the fake reads");
}

bool KernelParser::known(char letter, std::string_view name, SlotNumber& slot) {
  const auto found = names_.find(name);
  if (found == names_.end()) {
    return words_.fail(quoted(name) + " is not declared");
  }
  slot = found->second;
  return fits(letter, kernel_.slots[slot].kind) ||
         words_.fail(quoted(name) + " has another type than the instruction wants");
}

}  // namespace muster::fake
