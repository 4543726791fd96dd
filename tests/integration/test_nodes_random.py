# SPDX-License-Identifier: Apache-2.0
"""Kills random agents, including the host. Each time the others form a new round without the dead
one, and with it again after its restart. A failure prints the seed; MUSTER_TEST_SEED replays it."""

import os
import random
import time

from nodes import SHORT_LEASE, Node, NodesCase

RUNS = 20
KILLS = (Node.kill_agent, Node.kill_guard, Node.kill_all)


class Random(NodesCase):
    def setUp(self):
        super().setUp()
        self.seed = int(os.environ.get("MUSTER_TEST_SEED", random.randrange(1 << 32)))
        self.random = random.Random(self.seed)

    def start(self, nnodes, count):
        job = self.cluster(nnodes, conf=SHORT_LEASE)
        nodes = dict(enumerate(job.start_all(count), 1))
        job.round(count)
        return job, nodes

    def kill_one(self, nodes):
        number = self.random.choice(sorted(nodes))
        kill = self.random.choice(KILLS)
        victim = nodes.pop(number)
        kill(victim)
        return number, victim, f"{kill.__name__} of {victim.label}"

    def kill_and_start_again(self, nnodes, count):
        job, nodes = self.start(nnodes, count)
        for run in range(RUNS):
            number, victim, what = self.kill_one(nodes)
            with self.subTest(seed=self.seed, run=run, what=what):
                less = job.round(count - 1, nodes=[node.label for node in nodes.values()])
                self.assertEqual(less.restarts, 0)
                self.assert_nothing_left(victim)
                nodes[number] = job.start(number)
                job.round(count)
        job.finish(*nodes.values())

    def test_20_of_20_with_three_nodes_of_which_two_are_needed(self):
        self.kill_and_start_again("2:3", 3)

    def test_20_of_20_with_four_nodes_of_which_one_is_needed(self):
        self.kill_and_start_again("1:4", 4)

    def test_two_at_once_and_in_the_middle_of_whatever_happens(self):
        job, nodes = self.start("1:5", 5)
        for run in range(RUNS):
            done = [self.kill_one(nodes) for _ in range(self.random.choice((1, 2)))]
            with self.subTest(seed=self.seed, run=run, what=[what for _, _, what in done]):
                for number, victim, _ in done:
                    # At a random time during or after their regrouping.
                    time.sleep(self.random.random() * 0.05)
                    victim.process.wait()
                    nodes[number] = job.start(number)
                job.round(5, nodes=[node.label for node in nodes.values()])
        job.finish(*nodes.values())
