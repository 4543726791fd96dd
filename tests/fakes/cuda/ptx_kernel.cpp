// SPDX-License-Identifier: Apache-2.0
#include "fakes/cuda/ptx_kernel.hpp"

namespace muster::fake {
namespace {

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
