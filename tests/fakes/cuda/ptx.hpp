// SPDX-License-Identifier: Apache-2.0
// A kernel in PTX, decoded once so that it runs quickly: made by ptx_parse, run by ptx_run. All
// that an instruction can name is a slot: registers, and what never changes within a thread (its
// place in the grid, parameters, constants). Values; pure.
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

// The letters of SlotKind also stand in the table of instructions (ptx_forms.hpp).
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
  std::uint64_t value = 0;  // of a constant

  [[nodiscard]] bool is_register() const {
    return kind != SlotKind::special && kind != SlotKind::parameter && kind != SlotKind::constant;
  }
};

using SlotNumber = std::uint16_t;

// Slots that each kernel has, before its parameters, which come next.
enum SpecialSlot : SlotNumber { tid, ntid, ctaid, nctaid, special_slots };

inline constexpr std::array kSpecialNames = {"%tid.x", "%ntid.x", "%ctaid.x", "%nctaid.x"};

struct Instruction {
  Op op = Op::end;
  std::uint8_t bytes = 0;               // of one element in memory
  std::uint8_t sources = 0;             // how many of `from`
  std::uint8_t targets = 0;             // how many of `to`
  std::uint32_t next = 0;               // where a branch goes
  std::uint32_t line = 0;               // of the text
  std::uint64_t mask = 0;               // the bits that a result keeps
  std::array<SlotNumber, 4> to = {};    //
  std::array<SlotNumber, 5> from = {};  // of memory: the address, then what is stored
};

struct Kernel {
  std::string name;
  std::size_t parameters = 0;
  std::vector<Slot> slots;
  std::vector<Instruction> code;  // the last one is an end or a branch
};

}  // namespace muster::fake
