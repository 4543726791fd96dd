# SPDX-License-Identifier: Apache-2.0
"""A program that prints the size of its MPI world, compiled for either MPI. With an argument it
then waits for that file."""

import subprocess

COMPILERS = ("mpicc.openmpi", "mpicc.mpich")
PROGRAM = """
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char** argv) {
  int size = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  printf("MPI world of %d\\n", size);
  fflush(stdout);
  while (argc > 1 && access(argv[1], F_OK) != 0) {
    usleep(10000);
  }
  MPI_Finalize();
  return 0;
}
"""


def compiled(folder, mpi):
    """For "openmpi" or "mpich"."""
    source, program = folder / "world.c", folder / f"world.{mpi}"
    source.write_text(PROGRAM)
    subprocess.run([f"mpicc.{mpi}", "-o", program, source], check=True)
    return str(program)
