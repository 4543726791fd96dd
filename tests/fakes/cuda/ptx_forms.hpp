// SPDX-License-Identifier: Apache-2.0
// The table of instructions that the fake driver runs: those of our kernels, and no others, so that
// a kernel which uses more is noticed when it is loaded. Used by ptx_parse. Pure.
#pragma once

#include "fakes/cuda/ptx.hpp"

#include <span>
#include <string_view>

namespace muster::fake {

struct Form {
  std::string_view name;
  Op op;
  // A letter for each operand, the result first: those of SlotKind, and X for any 32 bits. A small
  // letter: an integer constant as well; s: also a special register. Of load and store: the letter
  // of what is moved.
  std::string_view operands;
  std::uint8_t bytes = 0;  // of load and store: of an element
  std::uint8_t count = 0;  // and how many
};

[[nodiscard]] std::span<const Form> all_forms();
// Null: there is none of that name.
[[nodiscard]] const Form* find_form(std::string_view name);
// Whether what is in the slot may stand there.
[[nodiscard]] bool fits(char operand, SlotKind kind);
[[nodiscard]] bool takes_constant(char operand);
// The bits of the operand's type.
[[nodiscard]] std::uint64_t mask_of(char operand);

}  // namespace muster::fake
