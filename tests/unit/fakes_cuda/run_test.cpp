// SPDX-License-Identifier: Apache-2.0
// Small kernels run by the interpreter of the fake driver: what they compute, and the sentence for
// each mistake that a kernel can make.
#include "fakes/cuda/ptx_half.hpp"
#include "fakes/cuda/ptx_parse.hpp"
#include "support/catch.hpp"
#include "unit/fakes_cuda/kernels.hpp"

#include <numeric>

namespace muster::testing {
namespace {

using Words = std::vector<std::uint32_t>;

TEST_CASE("kernels: a loop over the grid in quads, and the rest, for any number of elements") {
  for (const std::uint32_t blocks : {1U, 3U, 8U}) {
    for (const std::size_t count : {0U, 1U, 3U, 4U, 5U, 127U, 128U, 130U, 1000U}) {
      Words from(count + 4);
      std::iota(from.begin(), from.end(), 0xfffffff0);
      Words to(count + 4, 7);
      CAPTURE(blocks, count);
      CHECK(run_ptx(kernel_file("strided"),
                    {blocks, 32, {address_of(from), address_of(to), count}}) == "");
      Words expected(count + 4, 7);
      std::iota(expected.begin(), expected.begin() + static_cast<long>(count), 0xfffffff1);
      CHECK(to == expected);
    }
  }
}

TEST_CASE("kernels: vectors, offsets and halves of words, in each block") {
  Words from(24);
  std::iota(from.begin(), from.end(), 0xabcd0001);
  Words to(24);
  CHECK(run_ptx(kernel_file("vectors"), {3, 1, {address_of(from), address_of(to)}}) == "");
  for (std::size_t i = 0; i < 24; ++i) {
    const std::size_t mirrored = i / 8 * 8 + 7 - i % 8;
    CAPTURE(i);
    CHECK(to[i] == (i % 8 == 0 ? from[mirrored] & 0xffff : from[mirrored]));
  }
}

TEST_CASE("kernels: arithmetic of 32 and 64 bits") {
  Words to(15, 7);
  CHECK(run_ptx(kernel_file("arithmetic"), {1, 1, {address_of(to), 0xfffffff0}}) == "");
  CHECK(
      to ==
      Words{0x10, 0xffffff80, 0x3ffffffc, 0xff00f0, 0xfffffff5, 0xfff0, 1, 1, 1, 1, 1, 1, 1, 1, 7});
}

TEST_CASE("kernels: comparisons are without sign") {
  const auto compared = [](std::uint32_t a, std::uint32_t b) {
    const Words from = {a, b};
    Words to(12, 7);
    CHECK(run_ptx(kernel_file("compare"), {1, 1, {address_of(from), address_of(to)}}) == "");
    return to;
  };
  CHECK(compared(1, 2) == Words{1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1});
  CHECK(compared(2, 2) == Words{0, 1, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0});
  CHECK(compared(0xffffffff, 2) == Words{0, 0, 1, 1, 0, 1, 0, 0, 1, 1, 0, 1});
}

TEST_CASE("kernels: f32 to f16 and back, of all kinds of numbers") {
  const Words from = {0x3f800000,
                      0xbf800000,
                      0x40490fdb,
                      0x7f800000,
                      0xff800000,
                      0x7fc00000,
                      0xff800001,
                      0x477ff000,
                      0x33000001,
                      0x80000001,
                      0x387fffff,
                      0x00000000};
  const std::vector<std::uint16_t> expected = {0x3c00,
                                               0xbc00,
                                               0x4248,
                                               0x7c00,
                                               0xfc00,
                                               0x7fff,
                                               0x7fff,
                                               0x7c00,
                                               0x0001,
                                               0x8000,
                                               0x0400,
                                               0x0000};
  std::vector<std::uint16_t> narrow(from.size());
  Words wide(from.size());
  CHECK(run_ptx(kernel_file("halves"),
                {1,
                 static_cast<std::uint32_t>(from.size()),
                 {address_of(from), address_of(narrow), address_of(wide)}}) == "");
  CHECK(narrow == expected);
  for (std::size_t i = 0; i < from.size(); ++i) {
    CHECK(wide[i] == fake::widen_from_f16(expected[i]));
  }
}

TEST_CASE("kernels: each f16 to f32 and back, by the program's second kernel") {
  const auto program = fake::parse_ptx(kernel_file("halves"));
  REQUIRE(program.has_value());
  std::vector<std::uint16_t> from(0x10000);
  std::iota(from.begin(), from.end(), 0);
  std::vector<std::uint16_t> again(0x10000);
  Words wide(0x10000);
  const fake::Launch launch{256, 256, {address_of(from), address_of(wide), address_of(again)}};
  const auto uses = fake::foresee(program->kernels[1], launch);
  REQUIRE(uses.has_value());
  REQUIRE(uses->reads.size() == 1);
  CHECK(uses->reads[0].begin == address_of(from));
  CHECK(uses->reads[0].end == address_of(from) + 0x20000);
  CHECK(uses->writes.size() <= 2);
  CHECK(fake::run_kernel(program->kernels[1], launch, *uses) == std::nullopt);
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const bool number = (i & 0x7fff) <= 0x7c00;
    if (wide[i] != fake::widen_from_f16(from[i]) || again[i] != (number ? i : 0x7fff)) {
      FAIL_CHECK("wrong for " << i);
    }
  }
}

TEST_CASE("kernels: a dry run changes nothing, and says what is used") {
  const auto program = fake::parse_ptx(kernel_file("strided"));
  REQUIRE(program.has_value());
  Words from(64, 1);
  const Words to(64, 7);
  const auto uses =
      fake::foresee(program->kernels[0], {2, 4, {address_of(from), address_of(to), 61}});
  REQUIRE(uses.has_value());
  CHECK(to == Words(64, 7));
  REQUIRE(uses->reads.size() == 1);
  REQUIRE(uses->writes.size() == 1);
  CHECK(uses->reads[0].end - uses->reads[0].begin == std::uint64_t{61} * 4);
  CHECK(uses->writes[0].begin == address_of(to));
  CHECK(uses->writes[0].end == address_of(to) + std::uint64_t{61} * 4);
  CHECK(uses->writes[0].write);
}

TEST_CASE("kernels: a predicate and its opposite") {
  const auto text = kernel_of(
      "mov.u32 %t0, %tid.x; cvt.u64.u32 %i, %t0; mad.lo.u64 %a, %i, 4, %a;\n"
      "setp.eq.u32 %p, %t0, 2; mov.u32 %t1, 0;\n"
      "@%p bra odd; add.u32 %t1, %t1, 1;\n"
      "odd: @!%p bra even; add.u32 %t1, %t1, 2;\n"
      "even: st.global.b32 [%a], %t1; ret;");
  Words to(4);
  CHECK(run_ptx(text, {1, 4, {address_of(to), 0}}) == "");
  CHECK(to == Words{1, 1, 2, 1});
}

struct Mistake {
  const char* instructions;
  const char* sentence;
};

constexpr std::array kMistakes = {
    Mistake{"add.u32 %t0, %t1, 1; ret;", "k, line 12: thread 0 reads %t1, which it never wrote"},
    Mistake{"\nst.global.b32 [%a], %t3; ret;",
            "k, line 13: thread 0 reads %t3, which it never wrote"},
    Mistake{"@%p bra end; end: ret;", "reads %p, which it never wrote"},
    Mistake{"ld.global.b32 %t0, [%i]; ret;", "reads %i, which it never wrote"},
    Mistake{"mov.u32 %t0, 32; shl.b32 %t1, %t0, %t0; ret;", "shifts by 32 bits, beyond the type's"},
    Mistake{"shr.u64 %i, %a, 64; ret;", "shifts by 64 bits, beyond the type's"},
    Mistake{"ld.global.b32 %t0, [%a+2]; ret;", "no multiple of what it loads or stores"},
    Mistake{"ld.global.u16 %h0, [%a+1]; ret;", "no multiple of what it loads or stores"},
    Mistake{"ld.global.v2.b32 {%t0, %t1}, [%a+4]; ret;", "no multiple of what it loads"},
    Mistake{"ld.global.v4.b32 {%t0, %t1, %t2, %t3}, [%a+8]; ret;", "no multiple of what it loads"},
    Mistake{"mov.u32 %t0, 0; st.global.v2.b32 [%a+4], {%t0, %t0}; ret;", "no multiple of what"},
    Mistake{"end: bra end;", "thread 0 has run 4194304 instructions: it does not end"},
    Mistake{"ld.global.b32 %t0, [%a]; cvt.u64.u32 %i, %t0; add.u64 %i, %i, %b;\n"
            "st.global.b32 [%i], %t0; ret;",
            "k, line 13: thread 0 uses memory by what it has loaded"}};

TEST_CASE("kernels: mistakes of one thread") {
  alignas(16) std::array<std::uint32_t, 8> memory = {4, 0, 0, 0};
  const fake::Launch launch{1, 1, {address_of(memory.data()), address_of(&memory[4])}};
  REQUIRE(run_ptx(kernel_of("ld.global.v4.b32 {%t0, %t1, %t2, %t3}, [%a+16]; shr.u64 %i, %a, 63; "
                            "mov.u32 %t0, 31; shl.b32 %t1, %t0, %t0; ret;"),
                  launch) == "");
  for (const auto& mistake : kMistakes) {
    const auto sentence = run_ptx(kernel_of(mistake.instructions), launch);
    CAPTURE(mistake.instructions, sentence);
    CHECK(sentence.find(mistake.sentence) != std::string::npos);
  }
}

TEST_CASE("kernels: a register that an earlier thread wrote is not written for the next one") {
  const Words memory(4);
  const auto text = kernel_of(
      "mov.u32 %t0, %tid.x; setp.eq.u32 %p, %t0, 1; @%p bra use;\n"
      "mov.u32 %t1, 5; use: add.u32 %t2, %t1, 1; ret;");
  CHECK(run_ptx(text, {1, 2, {address_of(memory), 0}}) ==
        "k, line 13: thread 1 reads %t1, which it never wrote");
}

}  // namespace
}  // namespace muster::testing
