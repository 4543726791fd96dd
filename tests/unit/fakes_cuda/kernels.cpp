// SPDX-License-Identifier: Apache-2.0
#include "unit/fakes_cuda/kernels.hpp"

#include "base/check.hpp"
#include "fakes/cuda/ptx_parse.hpp"

#include <fstream>
#include <iterator>

namespace muster::testing {

std::string kernel_file(const std::string& name) {
  std::ifstream file(std::string(MUSTER_KERNELS) + "/" + name + ".ptx");
  MUSTER_CHECK(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string kernel_of(const std::string& instructions) {
  return ".version 6.0\n.target sm_53\n.address_size 64\n"
         ".visible .entry k(.param .u64 a, .param .u64 b)\n{\n"
         ".reg .pred %p;\n.reg .b16 %h<4>;\n.reg .b32 %t<4>;\n.reg .f32 %f<2>;\n"
         ".reg .b64 %a, %b, %i;\n"
         "ld.param.u64 %a, [a]; ld.param.u64 %b, [b];\n" +
         instructions + "\n}\n";
}

std::string run_ptx(const std::string& text, const fake::Launch& launch) {
  const auto program = fake::parse_ptx(text);
  if (!program) {
    return program.error();
  }
  const auto& kernel = program->kernels.front();
  const auto uses = fake::foresee(kernel, launch);
  return uses ? fake::run_kernel(kernel, launch, *uses).value_or("") : uses.error();
}

std::uint64_t address_of(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

}  // namespace muster::testing
