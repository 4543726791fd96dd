// SPDX-License-Identifier: Apache-2.0
#include "fakes/cuda/ptx_kernel.hpp"

#include <charconv>

namespace muster::fake {
namespace {

constexpr std::size_t kSlotsMax = 2000;
constexpr std::uint64_t kOffsetMax = 0x7fffffff;

std::string quoted(std::string_view text) {
  return "\"" + std::string(text) + "\"";
}

const std::map<std::string_view, SlotKind>& register_types() {
  static const std::map<std::string_view, SlotKind> kTypes = {{".pred", SlotKind::predicate},
                                                              {".b16", SlotKind::b16},
                                                              {".b32", SlotKind::b32},
                                                              {".b64", SlotKind::b64},
                                                              {".f32", SlotKind::f32}};
  return kTypes;
}

}  // namespace

KernelParser::KernelParser(WordReader& words) : words_(words) {
  for (const char* name : kSpecialNames) {
    add_slot(name, SlotKind::special);
  }
}

bool KernelParser::parse() {
  std::string_view name;
  if (!words_.need(Word::Kind::name, name) || !parameters() || !words_.need("{")) {
    return false;
  }
  kernel_.name = name;
  while (!words_.skip("}")) {
    if (!statement()) {
      return false;
    }
  }
  const bool ends = !kernel_.code.empty() &&
                    (kernel_.code.back().op == Op::end || kernel_.code.back().op == Op::branch);
  return (ends || words_.fail("the last instruction of a kernel is not ret or bra")) && land();
}

bool KernelParser::parameters() {
  if (!words_.need("(") || words_.skip(")")) {
    return words_.error().empty();
  }
  do {
    std::string_view name;
    if (!words_.need(".param") || !words_.need(".u64") || !words_.need(Word::Kind::name, name) ||
        !add_slot(std::string(name), SlotKind::parameter)) {
      return false;
    }
    ++kernel_.parameters;
  } while (words_.skip(","));
  return words_.need(")");
}

bool KernelParser::statement() {
  if (words_.skip("@")) {
    return guarded_branch();
  }
  std::string_view name;
  if (!words_.need(Word::Kind::name, name)) {
    return false;
  }
  if (name == ".reg") {
    return registers();
  }
  if (words_.skip(":")) {
    const auto here = static_cast<std::uint32_t>(kernel_.code.size());
    return labels_.emplace(name, here).second ||
           words_.fail("the label " + quoted(name) + " is there twice");
  }
  return name == "bra" ? branch(Op::branch) : instruction(name);
}

bool KernelParser::registers() {
  const auto type = words_.next().text;
  const auto found = register_types().find(type);
  if (found == register_types().end()) {
    return words_.fail("registers of type " + quoted(type) + " are not known to the fake");
  }
  do {
    if (!named_registers(found->second)) {
      return false;
    }
  } while (words_.skip(","));
  return words_.need(";");
}

// %name, or %name<4>: %name0 to %name3.
bool KernelParser::named_registers(SlotKind kind) {
  std::string_view name;
  if (!words_.need(Word::Kind::name, name)) {
    return false;
  }
  if (!name.starts_with('%')) {
    return words_.fail("the name of a register begins with %");
  }
  if (!words_.skip("<")) {
    return add_slot(std::string(name), kind);
  }
  std::uint64_t count = 0;
  if (!number(count) || !words_.need(">")) {
    return false;
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    if (!add_slot(std::string(name) + std::to_string(i), kind)) {
      return false;
    }
  }
  return true;
}

bool KernelParser::guarded_branch() {
  const Op op = words_.skip("!") ? Op::branch_unless : Op::branch_if;
  SlotNumber guard = 0;
  if (!operand('P', guard) || !words_.need("bra") || !branch(op)) {
    return false;
  }
  kernel_.code.back().sources = 1;
  kernel_.code.back().from[0] = guard;
  return true;
}

bool KernelParser::branch(Op op) {
  std::string_view label;
  if (!words_.need(Word::Kind::name, label)) {
    return false;
  }
  jumps_.push_back({kernel_.code.size(), label, words_.line()});
  add(op);
  return words_.need(";");
}

bool KernelParser::instruction(std::string_view name) {
  const Form* form = find_form(name);
  if (form == nullptr) {
    return words_.fail(quoted(name) + " is not among the instructions that the fake runs");
  }
  if (form->count > 0) {
    return memory(*form);
  }
  Instruction& made = add(form->op);
  for (std::size_t i = 0; i < form->operands.size(); ++i) {
    SlotNumber& slot = i == 0 ? made.to[0] : made.from[i - 1];
    if ((i > 0 && !words_.need(",")) || !operand(form->operands[i], slot)) {
      return false;
    }
  }
  if (!form->operands.empty()) {
    made.mask = mask_of(form->operands[0]);
    made.targets = 1;
    made.sources = static_cast<std::uint8_t>(form->operands.size() - 1);
  }
  return words_.need(";");
}

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

bool KernelParser::land() {
  for (const Jump& jump : jumps_) {
    const auto found = labels_.find(jump.label);
    if (found == labels_.end() || found->second >= kernel_.code.size()) {
      return words_.fail("line " + std::to_string(jump.line) + " goes to " + quoted(jump.label) +
                         ", where no instruction is");
    }
    kernel_.code[jump.from].next = found->second;
  }
  return true;
}

bool KernelParser::add_slot(const std::string& name, SlotKind kind) {
  if (kernel_.slots.size() >= kSlotsMax) {
    return words_.fail("more registers than the fake has");
  }
  const auto number = static_cast<SlotNumber>(kernel_.slots.size());
  kernel_.slots.push_back({name, kind, 0});
  return names_.emplace(name, number).second || words_.fail(quoted(name) + " is declared twice");
}

Instruction& KernelParser::add(Op op) {
  Instruction& made = kernel_.code.emplace_back();
  made.op = op;
  made.line = words_.line();
  return made;
}

}  // namespace muster::fake
