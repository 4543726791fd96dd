# SPDX-License-Identifier: Apache-2.0
"""A program that prints the size of its MPI world, compiled for either MPI. With an argument it
then waits for that file."""

import os
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


def environment(folder, hosts):
    """What Open MPI needs where the user is root and several of its programs start and end side by
    side: it removes its folder on a host when it is empty, and fails if that happens between its
    own mkdir and stat. This one is never empty."""
    for host in hosts:
        (folder / f"ompi.{host}.{os.getuid()}" / "kept").mkdir(parents=True)
    return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_orte_tmpdir_base": str(folder)}


def compiled(folder, mpi):
    """For "openmpi" or "mpich"."""
    source, program = folder / "world.c", folder / f"world.{mpi}"
    source.write_text(PROGRAM)
    subprocess.run([f"mpicc.{mpi}", "-o", program, source], check=True)
    return str(program)
