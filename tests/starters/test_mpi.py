# SPDX-License-Identifier: Apache-2.0
"""Real mpirun (Open MPI) and mpiexec (MPICH's Hydra) start muster on several hosts. Their remote
shell is a script that enters the host's namespaces."""

import shutil
import unittest

import hosts
import mpi_program
from mpi_program import COMPILERS, compiled
from harness import free_port
from nodes import WORKER, NodesCase

SH = """#!/bin/sh
# rsh [OPTION...] HOST COMMAND...
while [ "${{1#-}}" != "$1" ]; do shift; done
host=$1; shift
exec nsenter -t "$(cat '{folder}'/"$host".pid)" -n -u -m sh -c "$*"
"""


def missing():
    programs = ("mpirun.openmpi", "mpiexec.hydra", *COMPILERS)
    lacking = [program for program in programs if not shutil.which(program)]
    if lacking:
        return f"needs {', '.join(lacking)}: scripts/install_deps test"
    return hosts.missing()


@unittest.skipIf(missing(), missing())
class MpiCase(NodesCase):
    def setUp(self):
        super().setUp()
        self.net = hosts.Net(self.folder, ("login", "node1", "node2"))
        self.addCleanup(self.net.close)
        self._cleanups.insert(0, self._cleanups.pop())  # runs last
        for host in self.net.hosts:
            (self.folder / f"{host.name}.pid").write_text(str(host.holder.pid))
        self.rsh = str(self.executable(SH.format(folder=self.folder), "rsh"))
        self.env = mpi_program.environment(self.folder, [host.name for host in self.net.hosts])
        self.worker = str(self.executable(
            f"#!/bin/sh\nNODE_LABEL=$(uname -n) exec '{WORKER}'\n", "worker.sh"))

    def open_mpi(self, each):
        return ["mpirun.openmpi", "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", self.rsh,
                "--mca", "oob_tcp_if_include", hosts.NETWORK + "0/24", "--oversubscribe",
                "--host", f"node1:{each},node2:{each}", "-N", str(each)]

    def hydra(self, each):
        return ["mpiexec.hydra", "-launcher", "ssh", "-launcher-exec", self.rsh, "-iface", "eth0",
                "-hosts", "node1,node2", "-ppn", str(each), "-n", str(2 * each)]

    def start(self, words, options=(), on=1, program=None):
        """On host `on`: 0 is the login host, where no rank runs."""
        job = self.cluster("?")
        given = [*options, *(program or [self.worker])]
        job.launcher_args = lambda *_, **__: given
        prefix = [*self.net.hosts[on].prefix, *words]
        return job, job.start(1, label="starter", env=self.env, popen={"prefix": prefix})

    def meeting(self):
        return f"--rdzv-endpoint=node1:{free_port()}"

    def assert_places(self, one, places):
        self.assertEqual([(worker["node"], worker["env"]["LOCAL_RANK"],
                           worker["env"]["LOCAL_WORLD_SIZE"])
                          for worker in one.workers.values()], places)


TWO_OF_EACH = [("node1", "0", "2"), ("node1", "1", "2"), ("node2", "0", "2"), ("node2", "1", "2")]


class OpenMpi(MpiCase):
    def test_a_launcher_on_each_host(self):
        job, _ = self.start(self.open_mpi(1), ["--nproc-per-node=2"])
        self.assert_places(job.round(4), TWO_OF_EACH)
        job.finish()

    def test_a_launcher_for_each_worker(self):
        job, _ = self.start(self.open_mpi(2))
        self.assert_places(job.round(4), TWO_OF_EACH)
        job.finish()

    def test_from_a_host_without_ranks_it_asks_where_rank_0_is(self):
        job, node = self.start(self.open_mpi(1), on=0)
        ended = self.wait_for_exit(node, 2)
        self.assertIn("mpirun placed rank 0 on this host (node1), but the other ranks", ended.err)
        self.assertIn("Pass --rdzv-endpoint=HOST[:PORT]", ended.err)
        job, _ = self.start(self.open_mpi(1), [self.meeting()], on=0)
        self.assertEqual(job.round(2).nodes, ["node1", "node2"])
        job.finish()


class Hydra(MpiCase):
    def test_it_asks_where_rank_0_is(self):
        job, node = self.start(self.hydra(1))
        ended = self.wait_for_exit(node, 2)
        self.assertIn("mpiexec started 2 processes but does not report where rank 0 is", ended.err)

    def test_a_launcher_on_each_host(self):
        job, _ = self.start(self.hydra(1), [self.meeting(), "--nproc-per-node=2"], on=0)
        self.assert_places(job.round(4), TWO_OF_EACH)
        job.finish()

    def test_a_launcher_for_each_worker(self):
        job, _ = self.start(self.hydra(2), [self.meeting()])
        self.assert_places(job.round(4), TWO_OF_EACH)
        job.finish()


class ProgramsOfMpi(MpiCase):
    """Workers that call MPI_Init: each is a separate world. None hangs or takes its launcher's
    place in MPI's world, unless Open MPI starts one launcher per worker."""

    def assert_worlds(self, words, options, compiler, size, count):
        program = compiled(self.folder, compiler)
        _, node = self.start(words, options, program=[program])
        ended = self.wait_for_exit(node, 0)
        self.assertEqual(ended.out.splitlines(), [f"MPI world of {size}"] * count, ended)

    def test_without_an_mpi_launcher(self):
        for compiler in ("openmpi", "mpich"):
            self.assert_worlds([], ["--nproc-per-node=2"], compiler, 1, 2)

    def test_a_program_that_is_alone_gets_one_warning(self):
        go = self.folder / "go"
        program = compiled(self.folder, "openmpi")
        _, node = self.start([], ["--nproc-per-node=2"], program=[program, str(go)])
        node.wait_for_text("called MPI_Init and is alone in its MPI_COMM_WORLD")
        go.touch()
        ended = self.wait_for_exit(node, 0)
        self.assertEqual(ended.err.count("MPI_Init"), 1, ended)
        self.assertIn(f"use mpirun -n 2 {program}\n", ended.err)

    def test_several_workers_of_one_launcher(self):
        for compiler in ("openmpi", "mpich"):
            for words in (self.open_mpi(1), self.hydra(1)):
                self.assert_worlds(words, [self.meeting(), "--nproc-per-node=2"], compiler, 1, 4)

    def test_a_launcher_for_each_worker(self):
        self.assert_worlds(self.open_mpi(2), [], "openmpi", 4, 4)
        self.assert_worlds(self.hydra(2), [self.meeting()], "mpich", 1, 4)
