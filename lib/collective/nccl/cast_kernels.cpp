// SPDX-License-Identifier: Apache-2.0
#include "collective/nccl/cast_kernels.hpp"

#include <fmt/format.h>

namespace muster::collective::nccl {
namespace {

// %x0…%x3: f32 bits; %o0…%o3: bits of the narrow type, in the lower half. %i iterates over quads;
// %first is the thread's index in the grid.
constexpr const char* kHead = R"((.param .u64 from, .param .u64 to, .param .u64 count)
{
  .reg .pred %p;
  .reg .b16 %h;
  .reg .f32 %f;
  .reg .b32 %x<4>;
  .reg .b32 %o<4>;
  .reg .b32 %t, %u, %block, %threads, %thread, %blocks;
  .reg .b64 %from, %to, %count, %quads, %first, %i, %stride, %wide, %source, %target;

  ld.param.u64 %from, [from];
  ld.param.u64 %to, [to];
  ld.param.u64 %count, [count];
  cvta.to.global.u64 %from, %from;
  cvta.to.global.u64 %to, %to;
  mov.u32 %block, %ctaid.x;
  mov.u32 %threads, %ntid.x;
  mov.u32 %blocks, %nctaid.x;
  mov.u32 %thread, %tid.x;
  mul.wide.u32 %first, %block, %threads;
  cvt.u64.u32 %wide, %thread;
  add.u64 %first, %first, %wide;
  mul.wide.u32 %stride, %blocks, %threads;
  shr.u64 %quads, %count, 2;
  mov.u64 %i, %first;

quad:
  setp.ge.u64 %p, %i, %quads;
  @%p bra rest;
)";

constexpr const char* kNextQuad = R"(  add.u64 %i, %i, %stride;
  bra quad;

rest:
  shl.b64 %i, %quads, 2;
  add.u64 %i, %i, %first;
  setp.ge.u64 %p, %i, %count;
  @%p bra end;
)";

constexpr const char* kEnd = R"(
end:
  ret;
}
)";

// Addresses of element %i, or of quad %i, depending on the shifts.
std::string addresses(unsigned source_shift, unsigned target_shift) {
  return fmt::format(
      "  shl.b64 %source, %i, {};\n  add.u64 %source, %source, %from;\n"
      "  shl.b64 %target, %i, {};\n  add.u64 %target, %target, %to;\n",
      source_shift,
      target_shift);
}

// Converts %x<k> to %o<k>. Adds half a unit in the last place, minus one if the kept bits are even.
// This could turn a NaN into an infinity, so a NaN gets its quiet bit set instead.
std::string to_bf16(unsigned k) {
  return fmt::format(
      "  shr.u32 %t, %x{0}, 16;\n  and.b32 %t, %t, 1;\n  add.u32 %t, %t, 0x7fff;\n"
      "  add.u32 %t, %t, %x{0};\n  shr.u32 %t, %t, 16;\n"
      "  shr.u32 %u, %x{0}, 16;\n  or.b32 %u, %u, 0x40;\n"
      "  and.b32 %o{0}, %x{0}, 0x7fffffff;\n  setp.gt.u32 %p, %o{0}, 0x7f800000;\n"
      "  selp.b32 %o{0}, %u, %t, %p;\n",
      k);
}

std::string from_bf16(unsigned k) {
  return fmt::format("  shl.b32 %x{0}, %o{0}, 16;\n", k);
}

std::string to_f16(unsigned k) {
  return fmt::format("  mov.b32 %f, %x{0};\n  cvt.rn.f16.f32 %h, %f;\n  cvt.u32.u16 %o{0}, %h;\n",
                     k);
}

std::string from_f16(unsigned k) {
  return fmt::format("  cvt.u16.u32 %h, %o{0};\n  cvt.f32.f16 %f, %h;\n  mov.b32 %x{0}, %f;\n", k);
}

using Cast = std::string (*)(unsigned k);

std::string quad_of(Cast cast) {
  return cast(0) + cast(1) + cast(2) + cast(3);
}

std::string kernel(const char* name, const std::string& quad, const std::string& single) {
  return fmt::format(".visible .entry {}", name) + kHead + quad + kNextQuad + single + kEnd;
}

std::string narrowing(const char* name, Cast cast) {
  return kernel(name,
                addresses(4, 3) + "  ld.global.v4.b32 {%x0, %x1, %x2, %x3}, [%source];\n" +
                    quad_of(cast) +
                    "  shl.b32 %o1, %o1, 16;\n  or.b32 %o0, %o0, %o1;\n"
                    "  shl.b32 %o3, %o3, 16;\n  or.b32 %o2, %o2, %o3;\n"
                    "  st.global.v2.b32 [%target], {%o0, %o2};\n",
                addresses(2, 1) + "  ld.global.b32 %x0, [%source];\n" + cast(0) +
                    "  cvt.u16.u32 %h, %o0;\n  st.global.u16 [%target], %h;\n");
}

std::string widening(const char* name, Cast cast) {
  return kernel(name,
                addresses(3, 4) +
                    "  ld.global.v2.b32 {%o0, %o2}, [%source];\n"
                    "  shr.u32 %o1, %o0, 16;\n  and.b32 %o0, %o0, 0xffff;\n"
                    "  shr.u32 %o3, %o2, 16;\n  and.b32 %o2, %o2, 0xffff;\n" +
                    quad_of(cast) + "  st.global.v4.b32 [%target], {%x0, %x1, %x2, %x3};\n",
                addresses(1, 2) + "  ld.global.u16 %h, [%source];\n  cvt.u32.u16 %o0, %h;\n" +
                    cast(0) + "  st.global.b32 [%target], %x0;\n");
}

}  // namespace

// Targets the oldest PTX version and GPU that have all features used here; newer drivers accept
// them too.
std::string cast_kernels() {
  return ".version 6.0\n.target sm_53\n.address_size 64\n\n" + narrowing(kNarrowBf16, to_bf16) +
         narrowing(kNarrowF16, to_f16) + widening(kWidenBf16, from_bf16) +
         widening(kWidenF16, from_f16);
}

}  // namespace muster::collective::nccl
