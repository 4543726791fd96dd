# SPDX-License-Identifier: Apache-2.0
"""Ranks started by PyTorch's own torchrun that meet through its store: workers in Python and in
C++, restarts, two agents."""
import subprocess
import unittest

import support

WORKER = support.worker("muster_ranks.py")


def said(ranks, backend, epoch=0):
    return [f"rank {rank} of {ranks} by {backend} in epoch {epoch}" for rank in range(ranks)]


class Torchrun(support.PackageCase):
    def setUp(self):
        super().setUp()
        self.environment["OMP_NUM_THREADS"] = "1"

    def lines(self, *words):
        done = support.run(support.torchrun(*words), env=self.environment)
        return sorted(self.succeeded(done).splitlines())

    def test_ranks_in_python(self):
        self.assertEqual(self.lines("--nproc_per_node=3", WORKER, "sums"), said(3, "shm"))

    def test_ranks_in_c(self):
        lines = self.lines("--nproc_per_node=3", "--no-python",
                           support.program("muster-collective-puppet"), "sums")
        self.assertEqual((len(lines), len(set(lines))), (3, 1), lines)
        self.assertRegex(lines[0], r"^sums [0-9a-f]{16} of 3 by shm$")

    def test_after_a_restart_they_meet_in_the_next_epoch(self):
        lines = self.lines("--nproc_per_node=2", "--max-restarts=1", WORKER, "restart")
        self.assertEqual(lines, said(2, "shm", epoch=1))

    def test_two_agents(self):
        endpoint = f"127.0.0.1:{support.free_port()}"
        command = support.torchrun("--nnodes=2", "--nproc_per_node=2", "--rdzv-backend=c10d",
                                   f"--rdzv-endpoint={endpoint}", "--rdzv-id=muster",
                                   "--local-addr=127.0.0.1", WORKER, "hosts")
        agents = [subprocess.Popen(command, text=True, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=support.clean_environment(self.environment))
                  for _ in range(2)]
        ended = []
        for agent in agents:
            self.addCleanup(agent.kill)
            ended.append((*agent.communicate(timeout=support.DEADLINE), agent.returncode))
        self.assertEqual([code for _, _, code in ended], [0, 0], ended)
        self.assertEqual(sorted("".join(output for output, _, _ in ended).splitlines()),
                         said(4, "hier"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
