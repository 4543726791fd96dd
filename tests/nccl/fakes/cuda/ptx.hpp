// SPDX-License-Identifier: Apache-2.0
// A kernel in PTX, decoded once so that it runs quickly: created by ptx_parse, run by ptx_run.
// Operands of instructions are slots: registers, and values that never change within a thread (its
// position in the grid, parameters, constants). Values; pure.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::fake {

enum class Op : std::uint8_t {
  copy,
  add,
  multiply,
  shift_left,
  shift_right,
  bit_and,
  bit_or,
  select,
  greater,
  greater_equal,
  narrow_f16,
  widen_f16,
  load,
  store,
  branch,
  branch_if,
  end,
};

// The table of instructions (ptx_forms.hpp) uses the letters of SlotKind, too.
enum class SlotKind : char {
  predicate = 'P',
  b16 = 'H',
  b32 = 'W',
  f32 = 'F',
  b64 = 'L',
  special = 'S',
  parameter = 'A',
  constant = 'C',
};

struct Slot {
  std::string name;
  SlotKind kind = SlotKind::constant;
  std::uint64_t value = 0;  // value of a constant

  [[nodiscard]] bool is_register() const {
    return kind != SlotKind::special && kind != SlotKind::parameter && kind != SlotKind::constant;
  }
};

using SlotNumber = std::uint16_t;

// Slots that every kernel has. Its parameters follow them.
enum SpecialSlot : SlotNumber { tid, ntid, ctaid, nctaid, special_slots };

inline constexpr std::array kSpecialNames = {"%tid.x", "%ntid.x", "%ctaid.x", "%nctaid.x"};

struct Instruction {
  Op op = Op::end;
  std::uint8_t bytes = 0;               // size of one element in memory
  std::uint8_t sources = 0;             // number of entries in `from`
  std::uint8_t targets = 0;             // number of entries in `to`
  std::uint32_t next = 0;               // target of a branch
  std::uint32_t line = 0;               // line number in the PTX text
  std::uint64_t mask = 0;               // the bits that a result keeps
  std::array<SlotNumber, 4> to = {};    //
  std::array<SlotNumber, 5> from = {};  // for memory: the address, then the values to store
};

struct Kernel {
  std::string name;
  std::size_t parameters = 0;
  std::vector<Slot> slots;
  std::vector<Instruction> code;  // the last one is an exit or a branch
};

}  // namespace muster::fake
