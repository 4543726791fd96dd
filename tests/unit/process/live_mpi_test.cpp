// SPDX-License-Identifier: Apache-2.0
#include "process/tree/live_mpi.hpp"

#include "process/tree/live_environment.hpp"
#include "support/catch.hpp"

#include <unistd.h>

using namespace muster;

TEST_CASE("live MPI: a process without MPI has not called MPI_Init") {
  CHECK_FALSE(has_called_mpi_init(::getpid()));
  CHECK_FALSE(has_called_mpi_init(-1));
}

TEST_CASE("live MPI: if memory cannot be read, MPI_Init counts as not called") {
  const ReadMemory nothing = [](std::uint64_t, std::span<std::byte>) { return false; };
  CHECK_FALSE(has_called_mpi_init(nothing, "7f00-7f10 r--p 00000000 08:01 17 /lib/libmpi.so.40\n"));
}

TEST_CASE("live MPI: lists the files that a process has loaded") {
  const auto files = loaded_files(
      "7f00-7f10 r--p 00000000 08:01 17 /lib/libmpi.so.40\n"
      "7f10-7f20 r-xp 00010000 08:01 17 /lib/libmpi.so.40\n"
      "7f30-7f40 rw-p 00000000 00:00 0\n");
  REQUIRE(files.size() == 1);
  CHECK(files[0].path == "/lib/libmpi.so.40");
  CHECK(files[0].base == 0x7f00);
}
