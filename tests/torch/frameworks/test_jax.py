# SPDX-License-Identifier: Apache-2.0
"""An unmodified JAX program under muster: jax.distributed.initialize() needs no arguments."""
import re
import unittest

from support import COLD, MUSTER, Case, lines, program

PROGRAM = program("with_jax.py")


class Jax(Case):
    def coordinators(self, text):
        return set(re.findall(r"coordinator (\S+),", text))

    def check(self, text, processes, devices):
        total = sum(range(1, processes + 1))
        found = [line.partition(", coordinator")[0] for line in lines(text, "process ")]
        self.assertEqual(found, [f"process {i} of {processes}: sum {total}, devices {devices(i)}"
                                 for i in range(processes)], text)
        self.assertEqual(len(self.coordinators(text)), 1, text)

    def test_on_one_node(self):
        self.check(self.muster("--nproc-per-node=2", PROGRAM)[0], 2, str)

    def test_on_two_nodes_one_process_has_all_devices_of_a_node(self):
        self.check(self.two_nodes(PROGRAM), 2, lambda _: None)

    def test_on_two_nodes_with_two_processes_each(self):
        text = self.two_nodes("--nproc-per-node=2", PROGRAM)
        self.check(text, 4, lambda i: i % 2)

    def test_warm(self):
        """Importing JAX draws random numbers, so each worker is started cold."""
        out, err = self.muster("--warm=jax", "--nproc-per-node=2", PROGRAM)
        self.check(out, 2, str)
        self.assertIn(COLD, err)

    def test_the_coordinator_listens_on_the_same_port_after_a_restart(self):
        out, err = self.muster("--nproc-per-node=2", "--max-restarts=1", PROGRAM, "fail")
        self.check(out, 2, str)
        self.assertEqual(out.count("attempt 1"), 2, out + err)

    def test_without_the_variables_jax_finds_no_job(self):
        process = self.start(MUSTER, "--env-for=none", PROGRAM)
        out, err = process.communicate(timeout=600)
        self.assertNotEqual(process.returncode, 0, out)
        self.assertIn("coordinator_address should be defined", err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
