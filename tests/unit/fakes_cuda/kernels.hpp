// SPDX-License-Identifier: Apache-2.0
// Kernels for tests of the fake driver: those in kernels/*.ptx, which ptxas accepts too
// (ptxas_test.py), and small ones made of a few lines. Pure but for the files it reads.
#pragma once

#include "fakes/cuda/ptx_run.hpp"

#include <span>

namespace muster::testing {

// The text of kernels/<name>.ptx.
[[nodiscard]] std::string kernel_file(const std::string& name);
// A program of one kernel, "k", with the parameters a and b; %a, %b (.b64), %h<4> (.b16), %t<4>
// (.b32), %f<2> (.f32), %i (.b64) and %p are declared. Its first instruction is in line 12.
[[nodiscard]] std::string kernel_of(const std::string& instructions);
inline constexpr int kFirstLine = 12;

// Dry and for real. Empty: all threads have ended; else the sentence.
[[nodiscard]] std::string run_ptx(const std::string& text, const fake::Launch& launch);

[[nodiscard]] std::uint64_t address_of(const void* data);

template <class T>
std::uint64_t address_of(const std::vector<T>& data) {
  return address_of(static_cast<const void*>(data.data()));
}

}  // namespace muster::testing
