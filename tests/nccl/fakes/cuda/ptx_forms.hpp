// SPDX-License-Identifier: Apache-2.0
// The table of instructions that the fake driver runs: exactly those in our kernels, so that any
// other instruction is detected when a kernel is loaded. Used by ptx_parse. Pure.
#pragma once

#include "nccl/fakes/cuda/ptx.hpp"

#include <span>
#include <string_view>

namespace muster::fake {

struct Form {
  std::string_view name;
  Op op;
  // One letter per operand, the result first: those of SlotKind, and X for any 32 bits. A
  // lower-case letter also permits an integer constant, and s also a special register. For load and
  // store: the letter of the data.
  std::string_view operands;
  std::uint8_t bytes = 0;  // for load and store: bytes per element
  std::uint8_t count = 0;  // for load and store: number of elements
};

[[nodiscard]] std::span<const Form> all_forms();
// Null if there is no form with this name.
[[nodiscard]] const Form* find_form(std::string_view name);
// Whether the slot is permitted as this operand.
[[nodiscard]] bool fits(char operand, SlotKind kind);
[[nodiscard]] bool takes_constant(char operand);
// The bits of the operand's type.
[[nodiscard]] std::uint64_t mask_of(char operand);

}  // namespace muster::fake
