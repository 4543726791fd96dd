// SPDX-License-Identifier: Apache-2.0
// Sums a number over all ranks with the installed library; compiled as C++17, 20 and 23 and by
// nvcc.
#include <cstdio>
#include <muster/elastic.hpp>
#include <muster/gradient_sync.hpp>
#include <muster/store.hpp>
#include <muster/worker.hpp>

#ifdef __cpp_lib_expected
std::expected<muster::Communicator, muster::Error> begin() {
  return muster::Communicator::from_env();
}
#else
muster::Result<muster::Communicator> begin() {
  return muster::Communicator::from_env();
}
#endif

int main() {
  auto comm = begin();
  if (!comm) {
    std::puts(comm.error().text.c_str());
    return 1;
  }
  muster::worker::progress(0);
  auto sync = muster::GradientSync::create(*comm);
  float value = 5;
  const auto done = comm->all_reduce({&value, 1}, muster::Op::sum);
  muster::elastic::State state;
  state.add(value);
  const auto trained = muster::elastic::run(
      state, [&](muster::Communicator&) -> muster::Result<void> { return state.commit(); });
  std::printf("%d rank, %g\n", comm->size(), static_cast<double>(value));
  return done && sync && trained ? 0 : 1;
}
