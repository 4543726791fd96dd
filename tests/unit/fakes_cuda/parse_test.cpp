// SPDX-License-Identifier: Apache-2.0
// What the fake driver takes for PTX, and what it refuses, with the line.
#include "fakes/cuda/ptx_forms.hpp"
#include "fakes/cuda/ptx_parse.hpp"
#include "support/catch.hpp"
#include "unit/fakes_cuda/kernels.hpp"

namespace muster::testing {
namespace {

std::string error_of(const std::string& text) {
  const auto program = fake::parse_ptx(text);
  return program ? "" : program.error();
}

constexpr std::array kFiles = {"arithmetic", "compare", "halves", "strided", "vectors"};

TEST_CASE("PTX: each instruction of the table is in a kernel that ptxas accepts") {
  std::string all;
  for (const char* name : kFiles) {
    const auto text = kernel_file(name);
    CAPTURE(name);
    CHECK(error_of(text).empty());
    all += text;
  }
  for (const auto& form : fake::all_forms()) {
    CAPTURE(form.name);
    CHECK((all.find("\n  " + std::string(form.name) + " ") != std::string::npos ||
           all.find("\n  " + std::string(form.name) + ";") != std::string::npos));
  }
}

TEST_CASE("PTX: version, target and kernels are read") {
  const auto program = fake::parse_ptx(kernel_file("halves"));
  REQUIRE(program.has_value());
  CHECK(program->version == 60);
  CHECK(program->target == 53);
  REQUIRE(program->kernels.size() == 2);
  CHECK(program->kernels[0].name == "halves");
  CHECK(program->kernels[1].name == "widened");
  CHECK(program->kernels[1].parameters == 3);
}

struct Refused {
  const char* instructions;
  const char* error;  // without the line, which is kFirstLine
};

constexpr std::array kRefused = {
    Refused{"sub.u32 %t0, %t1, %t2; ret;", "\"sub.u32\" is not among the instructions"},
    Refused{"ld.global.f32 %f0, [%a]; ret;", "\"ld.global.f32\" is not among the instructions"},
    Refused{"add.u32 %t0, %t9, 1; ret;", "\"%t9\" is not declared"},
    Refused{"add.u32 %t0, %a, 1; ret;", "\"%a\" has another type"},
    Refused{"add.u32 %t0, %f0, 1; ret;", "\"%f0\" has another type"},
    Refused{"add.u64 %i, %t0, 1; ret;", "\"%t0\" has another type"},
    Refused{"add.u32 %t0, %tid.x, 1; ret;", "\"%tid.x\" has another type"},
    Refused{"mov.u32 %t0, %f0; ret;", "\"%f0\" has another type"},
    Refused{"mov.u32 %t0, %tid.y; ret;", "\"%tid.y\" is not declared"},
    Refused{"cvt.rn.f16.f32 %t0, %f0; ret;", "\"%t0\" has another type"},
    Refused{"cvt.u64.u32 %i, 5; ret;", "a name is wanted, not \"5\""},
    Refused{"setp.lt.u32 %t0, %t1, %t2; ret;", "\"%t0\" has another type"},
    Refused{"selp.b32 %t0, %t1, %t2, %t3; ret;", "\"%t3\" has another type"},
    Refused{"ld.param.u64 %i, [c]; ret;", "\"c\" is not declared"},
    Refused{"ld.param.u64 %i, [%a]; ret;", "\"%a\" has another type"},
    Refused{"ld.global.b32 %t0, [a]; ret;", "\"a\" has another type"},
    Refused{"ld.global.b32 %t0, [%t1]; ret;", "\"%t1\" has another type"},
    Refused{"ld.global.b32 %t0, [%a+0x80000000]; ret;", "the offset is too big"},
    Refused{"ld.global.b32 %t0, [%a-4]; ret;", "\"]\" is wanted, not \"-\""},
    Refused{"ld.global.u16 %t0, [%a]; ret;", "\"%t0\" has another type"},
    Refused{"ld.global.v2.b32 {%t0}, [%a]; ret;", "\",\" is wanted, not \"}\""},
    Refused{"ld.global.v2.b32 {%t0, %t1, %t2}, [%a]; ret;", "\"}\" is wanted, not \",\""},
    Refused{"st.global.b32 [%a], 5; ret;", "a name is wanted, not \"5\""},
    Refused{"add.u32 %t0, %t1, 0x100000000; ret;", "the number does not fit"},
    Refused{"add.u32 %t0, %t1, -2147483649; ret;", "the number does not fit"},
    Refused{"add.u64 %i, %i, 18446744073709551616; ret;", "is no number that the fake reads"},
    Refused{"add.u32 %t0, %t1, 010; ret;", "\"010\" is no number that the fake reads"},
    Refused{"add.u32 %t0, %t1, 0x; ret;", "\"0x\" is no number that the fake reads"},
    Refused{"add.u32 %t0, %t1, 1.5; ret;", "\"1.5\" is no number that the fake reads"},
    Refused{"add.u32 %t0, %t1; ret;", "\",\" is wanted, not \";\""},
    Refused{"add.u32 %t0, %t1, 1, 2; ret;", "\";\" is wanted, not \",\""},
    Refused{"add.u32 %t0, %t1, 1 ret;", "\";\" is wanted, not \"ret\""},
    Refused{"@%p add.u32 %t0, %t1, 1; ret;", "\"bra\" is wanted, not \"add.u32\""},
    Refused{"@%t0 bra k; ret;", "\"%t0\" has another type"},
    Refused{"k: k: ret;", "the label \"k\" is there twice"},
    Refused{".reg .f64 %d; ret;", "registers of type \".f64\" are not known"},
    Refused{".reg .b32 %t0; ret;", "\"%t0\" is declared twice"},
    Refused{".reg .b32 t; ret;", "the name of a register begins with %"},
    Refused{".reg .b32 %r<5000>; ret;", "more registers than the fake has"},
    Refused{"? ret;", "a name is wanted, not \"?\""},
    Refused{"ret; } .visible .entry k() { ret;", "a kernel named k is there already"}};

TEST_CASE("PTX: what it refuses") {
  REQUIRE(error_of(kernel_of("ret;")).empty());
  for (const auto& refused : kRefused) {
    const auto error = error_of(kernel_of(refused.instructions));
    CAPTURE(refused.instructions, error);
    CHECK(error.find(refused.error) != std::string::npos);
    const int line = error.find("already") == std::string::npos ? kFirstLine : kFirstLine + 1;
    CHECK(error.starts_with("line " + std::to_string(line) + ": "));
  }
  CHECK(error_of(kernel_of("")).find("is not ret or bra") != std::string::npos);
  CHECK(error_of(kernel_of("mov.u32 %t0, 1;")).find("is not ret or bra") != std::string::npos);
  CHECK(error_of(kernel_of("end: ret; /*\n*/ bra nowhere;")).find("line 13 goes to \"nowhere\"") !=
        std::string::npos);
  CHECK(error_of(kernel_of("bra end; end:")).find("goes to \"end\", where no instruction is") !=
        std::string::npos);
}

TEST_CASE("PTX: what it refuses around the kernels") {
  CHECK(error_of("") == "line 1: \".version\" is wanted, not \"the end\"");
  CHECK(error_of("\x7f"
                 "ELF") == "line 1: \".version\" is wanted, not \"\x7f\"");
  CHECK(error_of(".version 6\n.target sm_53\n") == "line 1: a version is written as 6.0");
  CHECK(error_of(".version 6.0\n.target gpu\n") == "line 2: a target is written as sm_53");
  CHECK(error_of(".version 6.0\n.target sm_53\n.address_size 32\n") ==
        "line 3: \"64\" is wanted, not \"32\"");
  const std::string head = ".version 6.0\n.target sm_53 // a comment\n.address_size 64\n";
  CHECK(error_of(head).empty());
  CHECK(error_of(head + ".entry k() { ret; }") == "line 4: \".visible\" is wanted, not \".entry\"");
  CHECK(error_of(head + ".visible .entry k() { ret;") ==
        "line 4: a name is wanted, not \"the end\"");
  CHECK(error_of(head + ".visible .entry k(.param .u32 a) { ret; }") ==
        "line 4: \".u64\" is wanted, not \".u32\"");
  CHECK(error_of(head + ".visible .entry k(.param .u64 a, .param .u64 a) { ret; }") ==
        "line 4: \"a\" is declared twice");
}

}  // namespace
}  // namespace muster::testing
