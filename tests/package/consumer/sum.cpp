// SPDX-License-Identifier: Apache-2.0
// Sums a number over all ranks with the installed library.
#include "collective/communicator.hpp"

#include <cstdio>

int main() {
  using namespace muster::collective;  // NOLINT(google-build-using-namespace): a program
  auto comm = Communicator::from_env();
  if (!comm) {
    std::puts(comm.error().text.c_str());
    return 1;
  }
  float value = 5;
  const Buffer buffer{&value, 1, DType::f32};
  const auto done = comm->all_reduce(buffer, buffer, Op::sum);
  std::printf("%d rank, %g\n", comm->size(), static_cast<double>(value));
  return done ? 0 : 1;
}
