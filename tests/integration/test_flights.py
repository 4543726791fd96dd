# SPDX-License-Identifier: Apache-2.0
"""The flight recorders of killed ranks, read from a survivor: a rank or the launcher."""
import os
import re
import signal
import subprocess
import unittest
from pathlib import Path

from test_collective import MUSTER, PUPPET, Job, flights
from test_collective_faults import until
from cases import children, spawn, state

BEHIND = r'(?m)^  rank 1: last completed #99 all_reduce max f32\[1000\]$'


class OfKilledRanks(unittest.TestCase):
    def test_from_any_other_rank_of_the_host(self):
        for survivor in (0, 2):
            with self.subTest(survivor=survivor), Job(3, 'stop') as job:
                pids = [rank.pid for rank in job.ranks]
                until(lambda: state(pids[1]) == 'T')
                waits = 'ranks 0, 2: in #100 all_reduce max f32[1000], after #99'
                until(lambda: waits in flights(*pids))
                other = 2 - survivor
                # Otherwise the survivor would exit because of the error.
                os.kill(pids[survivor], signal.SIGSTOP)
                until(lambda: state(pids[survivor]) == 'T')
                for rank in (1, other):
                    job.ranks[rank].kill()
                    job.ranks[rank].wait()
                text = flights(pids[survivor])
                self.assertIn("world, epoch 0: 3 of 3 ranks seen\n", text)
                self.assertRegex(text, BEHIND)
                self.assertIn(waits, text)
                self.assertIn('  rank 1 is behind: ranks 0, 2 wait for it\n', text)

    def start(self, *options):
        """A job whose rank 1 has stopped: guard, agent and workers."""
        guard = spawn(self, [MUSTER, '--nproc-per-node=2', *options, PUPPET, 'stop'],
                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        agent = until(lambda: children(guard.pid))[0]
        workers = until(lambda: len(children(agent)) == 2 and children(agent))
        until(lambda: re.search(BEHIND, flights(agent)))
        return guard, agent, workers

    def test_from_the_launcher_when_all_ranks_are_dead(self):
        guard, agent, workers = self.start()
        until(lambda: 'rank 0: in #100 all_reduce' in flights(agent))
        # A launcher that must not react to the deaths yet.
        os.kill(agent, signal.SIGSTOP)
        until(lambda: state(agent) == 'T')
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        until(lambda: all(state(worker) == 'Z' for worker in workers))
        text = flights(guard.pid)
        self.assertIn("world, epoch 0: 2 of 2 ranks seen\n", text)
        self.assertRegex(text, BEHIND)
        self.assertEqual(len([link for link in Path(f'/proc/{agent}/fd').iterdir()
                              if 'flight-' in os.readlink(link)]), 1)
        os.kill(agent, signal.SIGCONT)
        self.assertNotEqual(guard.wait(60), 0)

    def test_the_launcher_lets_go_of_them_at_the_next_attempt(self):
        guard, agent, workers = self.start('--max-restarts=1')
        os.kill(workers[1], signal.SIGKILL)
        until(lambda: 'epoch 1: 2 of 2' in flights(agent))
        self.assertNotIn('epoch 0', flights(agent))
        guard.send_signal(signal.SIGTERM)
        guard.wait(60)
