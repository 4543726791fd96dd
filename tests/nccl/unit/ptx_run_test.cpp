// SPDX-License-Identifier: Apache-2.0
// Runs small kernels in the interpreter of the fake driver: the error message for each mistake that
// a kernel can make, in its text or at run time. The library's kernels, which contain every
// instruction, test the results of instructions (cast_kernels_test.cpp).
#include "nccl/fakes/cuda/ptx_run.hpp"

#include "nccl/fakes/cuda/ptx_parse.hpp"
#include "support/catch.hpp"

namespace muster::testing {
namespace {

using Words = std::vector<std::uint32_t>;

// A kernel "k" with two parameters in %a and %b. Declares %t<4> (.b32), %h (.b16), %f (.f32), %i
// (.b64) and %p. The instructions begin on line 11.
std::string kernel_of(const std::string& instructions) {
  return ".version 6.0\n.target sm_53\n.address_size 64\n"
         ".visible .entry k(.param .u64 a, .param .u64 b)\n{\n"
         ".reg .pred %p;\n.reg .b16 %h;\n.reg .b32 %t<4>;\n.reg .f32 %f; .reg .b64 %a, %b, %i;\n"
         "ld.param.u64 %a, [a]; ld.param.u64 %b, [b];\n" +
         instructions + "\n}\n";
}

// A dry run and a real run. Empty if all threads have exited, otherwise the error message.
std::string run(const std::string& instructions, const fake::Launch& launch) {
  const auto kernels = fake::parse_ptx(kernel_of(instructions));
  if (!kernels) {
    return kernels.error();
  }
  const auto uses = fake::foresee(kernels->front(), launch);
  return uses ? fake::run_kernel(kernels->front(), launch, *uses).value_or("") : uses.error();
}

std::uint64_t address_of(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

// Copies each thread's word from a to b.
constexpr const char* kCopy =
    "mov.u32 %t0, %tid.x; cvt.u64.u32 %i, %t0; shl.b64 %i, %i, 2;\n"
    "add.u64 %a, %a, %i; add.u64 %b, %b, %i;\n"
    "ld.global.b32 %t0, [%a]; st.global.b32 [%b], %t0; ret;";

TEST_CASE("kernels: a dry run changes nothing and records the memory uses") {
  const auto kernels = fake::parse_ptx(kernel_of(kCopy));
  REQUIRE(kernels.has_value());
  const Words from = {1, 2, 3, 4};
  Words to(5, 7);
  const fake::Launch launch{1, 4, {address_of(from.data()), address_of(to.data())}};
  const auto uses = fake::foresee(kernels->front(), launch);
  REQUIRE(uses.has_value());
  CHECK(to == Words(5, 7));
  REQUIRE(uses->reads.size() == 1);
  REQUIRE(uses->writes.size() == 1);
  CHECK(uses->reads[0].begin == address_of(from.data()));
  CHECK(uses->reads[0].end == address_of(from.data() + 4));
  CHECK(uses->writes[0].begin == address_of(to.data()));
  CHECK(uses->writes[0].write);
  CHECK(fake::run_kernel(kernels->front(), launch, *uses) == std::nullopt);
  CHECK(to == Words{1, 2, 3, 4, 7});
}

struct Mistake {
  const char* instructions;
  const char* sentence;
};

constexpr std::array kMistakes = {
    Mistake{"\nst.global.b32 [%a], %t3; ret;", "k, line 12: thread 0 reads %t3, which it never"},
    Mistake{"@%p bra end; end: ret;", "reads %p, which it never wrote"},
    Mistake{"mov.u32 %t0, 32; shl.b32 %t1, %t0, %t0; ret;", "shifts by 32 bits, beyond the type's"},
    Mistake{"shr.u64 %i, %a, 64; ret;", "shifts by 64 bits, beyond the type's"},
    Mistake{"add.u64 %a, %a, 2; ld.global.b32 %t0, [%a]; ret;", "no multiple of what it loads or"},
    Mistake{"add.u64 %a, %a, 8; ld.global.v4.b32 {%t0, %t1, %t2, %t3}, [%a]; ret;",
            "no multiple of what it loads or stores"},
    Mistake{"end: bra end;", "thread 0 has run 4194304 instructions: it does not end"},
    Mistake{"ld.global.b32 %t0, [%a]; cvt.u64.u32 %i, %t0; add.u64 %i, %i, %b;\n"
            "st.global.b32 [%i], %t0; ret;",
            "k, line 12: thread 0 uses memory by what it has loaded"},
    Mistake{"sub.u32 %t0, %t1, %t2; ret;",
            "line 11: \"sub.u32\" is not among the instructions that the fake runs"},
    Mistake{"add.u32 %t0, %t9, 1; ret;", "\"%t9\" is not declared"},
    Mistake{"add.u32 %t0, %f, 1; ret;", "\"%f\" has another type than the instruction wants"},
    Mistake{"cvt.rn.f16.f32 %t0, %f; ret;", "\"%t0\" has another type"},
    Mistake{"cvt.u64.u32 %i, 5; ret;", "\"5\" is not declared"},
    Mistake{"add.u32 %t0, %t1, 0x100000000; ret;", "the number does not fit into its type"},
    Mistake{"ld.global.v2.b32 {%t0}, [%a]; ret;", "\",\" is wanted, not \"}\""},
    Mistake{"mov.u32 %t0, 1;", "the last instruction of a kernel is not ret or bra"},
    Mistake{"bra nowhere; ret;", "line 11 goes to \"nowhere\", where no instruction is"}};

TEST_CASE("kernels: errors in a thread and in the text") {
  alignas(16) std::array<std::uint32_t, 8> memory = {4, 0, 0, 0};
  const fake::Launch launch{1, 1, {address_of(memory.data()), address_of(&memory[4])}};
  REQUIRE(run("ld.global.v4.b32 {%t0, %t1, %t2, %t3}, [%b]; shr.u64 %i, %a, 63; mov.u32 %t0, 31;\n"
              "shl.b32 %t1, %t0, %t0; ret;",
              launch) == "");
  for (const auto& mistake : kMistakes) {
    const auto sentence = run(mistake.instructions, launch);
    CAPTURE(mistake.instructions, sentence);
    CHECK(sentence.find(mistake.sentence) != std::string::npos);
  }
}

TEST_CASE("kernels: a register written by one thread counts as unwritten in the next one") {
  const Words memory(4);
  CHECK(run("mov.u32 %t0, %tid.x; setp.gt.u32 %p, %t0, 0; @%p bra use;\n"
            "mov.u32 %t1, 5; use: add.u32 %t2, %t1, 1; ret;",
            {1, 2, {address_of(memory.data()), 0}}) ==
        "k, line 12: thread 1 reads %t1, which it never wrote");
}

TEST_CASE("kernels: threads that all write one word") {
  const Words memory(1);
  CHECK(run("mov.u32 %t0, 1; st.global.b32 [%a], %t0; ret;",
            {2, 1, {address_of(memory.data()), 0}}) ==
        "k: thread 1 writes (line 11) what thread 0 writes (line 11), and nothing orders the two");
}

}  // namespace
}  // namespace muster::testing
