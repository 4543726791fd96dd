// SPDX-License-Identifier: Apache-2.0
// KernelParser: one `.entry` of a program in PTX: parameters, registers, labels, instructions.
// Used by ptx_parse. All members that return bool return false after an error, which the reader
// has then. Pure.
#pragma once

#include "fakes/cuda/ptx.hpp"
#include "fakes/cuda/ptx_forms.hpp"
#include "fakes/cuda/ptx_words.hpp"

#include <map>
#include <span>

namespace muster::fake {

inline constexpr std::size_t kSlotsMax = 2000;

class KernelParser {
 public:
  explicit KernelParser(WordReader& words);

  // From the kernel's name to the brace that ends it.
  bool parse();

  [[nodiscard]] Kernel& kernel() { return kernel_; }

 private:
  struct Jump {
    std::size_t from;
    std::string_view label;
    unsigned line;
  };

  bool parameters();
  bool statement();
  bool registers();
  bool named_registers(SlotKind kind);
  bool guarded_branch();
  bool branch(Op op);
  bool instruction(std::string_view name);
  bool memory(const Form& form);
  bool moved(const Form& form, std::span<SlotNumber> slots);
  bool address();
  bool operand(char letter, SlotNumber& slot);
  bool constant(char letter, SlotNumber& slot);
  bool number(std::uint64_t& value);
  bool known(char letter, std::string_view name, SlotNumber& slot);
  bool land();

  bool add_slot(const std::string& name, SlotKind kind);
  Instruction& add(Op op);

  WordReader& words_;
  Kernel kernel_;
  std::map<std::string, SlotNumber, std::less<>> names_;
  std::map<std::string_view, std::uint32_t> labels_;
  std::vector<Jump> jumps_;
};

}  // namespace muster::fake
