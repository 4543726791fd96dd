// SPDX-License-Identifier: Apache-2.0
#include "nccl/fakes/cuda/ptx_forms.hpp"

#include <cctype>

namespace muster::fake {
namespace {

constexpr std::array kForms = {
    Form{"ld.param.u64", Op::copy, "LA"},
    Form{"cvta.to.global.u64", Op::copy, "LL"},
    Form{"mov.u32", Op::copy, "Ws"},
    Form{"mov.u64", Op::copy, "LL"},
    Form{"mov.b32", Op::copy, "XX"},
    Form{"cvt.u64.u32", Op::copy, "LW"},
    Form{"cvt.u32.u16", Op::copy, "WH"},
    Form{"cvt.u16.u32", Op::copy, "HW"},
    Form{"cvt.rn.f16.f32", Op::narrow_f16, "HF"},
    Form{"cvt.f32.f16", Op::widen_f16, "FH"},
    Form{"add.u32", Op::add, "Www"},
    Form{"add.u64", Op::add, "Lll"},
    Form{"mul.wide.u32", Op::multiply, "Lww"},
    Form{"shl.b32", Op::shift_left, "Xxw"},
    Form{"shl.b64", Op::shift_left, "Llw"},
    Form{"shr.u32", Op::shift_right, "Www"},
    Form{"shr.u64", Op::shift_right, "Llw"},
    Form{"and.b32", Op::bit_and, "Xxx"},
    Form{"or.b32", Op::bit_or, "Xxx"},
    Form{"selp.b32", Op::select, "XxxP"},
    Form{"setp.gt.u32", Op::greater, "Pww"},
    Form{"setp.ge.u64", Op::greater_equal, "Pll"},
    Form{"ld.global.u16", Op::load, "H", 2, 1},
    Form{"ld.global.b32", Op::load, "X", 4, 1},
    Form{"ld.global.v2.b32", Op::load, "X", 4, 2},
    Form{"ld.global.v4.b32", Op::load, "X", 4, 4},
    Form{"st.global.u16", Op::store, "H", 2, 1},
    Form{"st.global.b32", Op::store, "X", 4, 1},
    Form{"st.global.v2.b32", Op::store, "X", 4, 2},
    Form{"st.global.v4.b32", Op::store, "X", 4, 4},
    Form{"ret", Op::end, ""},
};

char capital(char operand) {
  return static_cast<char>(std::toupper(static_cast<unsigned char>(operand)));
}

}  // namespace

std::span<const Form> all_forms() {
  return kForms;
}

const Form* find_form(std::string_view name) {
  for (const Form& form : kForms) {
    if (form.name == name) {
      return &form;
    }
  }
  return nullptr;
}

// A register without a type (.b32) may hold an f32, but an integer register may not.
bool fits(char operand, SlotKind kind) {
  switch (capital(operand)) {
    case 'X':
    case 'F':
      return kind == SlotKind::b32 || kind == SlotKind::f32;
    case 'S':
      return kind == SlotKind::b32 || kind == SlotKind::special;
    default:
      return static_cast<char>(kind) == capital(operand);
  }
}

bool takes_constant(char operand) {
  return operand != capital(operand);
}

std::uint64_t mask_of(char operand) {
  switch (capital(operand)) {
    case 'P':
      return 1;
    case 'H':
      return 0xffff;
    case 'L':
      return ~std::uint64_t{0};
    default:
      return 0xffffffff;
  }
}

}  // namespace muster::fake
