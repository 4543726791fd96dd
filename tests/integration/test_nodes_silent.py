# SPDX-License-Identifier: Apache-2.0
"""Nodes that are stopped for a while (a frozen machine, a suspended virtual machine): after their
lease the others continue, and a thawed node stops its old workers before it joins again."""

import os
import signal

from harness import eventually, state
from nodes import LONG_LEASE, NEVER, SHORT_LEASE, NodesCase


class Frozen(NodesCase):
    def freeze(self, who, nnodes="2:3"):
        job, nodes, _ = self.form(nnodes, 3, conf=SHORT_LEASE)
        nodes[who].stop_all()
        rest = [node for node in nodes if node is not nodes[who]]
        again = job.round(2, nodes=[node.label for node in rest])
        self.assertEqual(again.restarts, 0)
        return job, nodes

    def thaw(self, job, nodes, who):
        nodes[who].thaw()
        full = job.round(3)
        self.assertEqual(sorted(full.nodes), ["n1", "n2", "n3"])
        self.assertEqual(full.restarts, 0)
        job.finish(*nodes)

    def test_a_whole_member(self):
        self.thaw(*self.freeze(2), 2)

    def test_the_whole_host(self):
        self.thaw(*self.freeze(0), 0)

    def test_the_whole_node_of_rank_1(self):
        self.thaw(*self.freeze(1), 1)

    def test_a_machine_that_thaws_at_once(self):
        job, nodes = self.freeze(1)
        old, = nodes[1].worker_pids()
        job.story.thaws["n2"] = nodes[1].thaw_at_once()
        full = job.round(3)
        self.assertIn(state(old), ("Z", "X", ""))
        self.assertEqual(sorted(full.nodes), ["n1", "n2", "n3"])
        job.finish(*nodes)

    def test_a_frozen_node_that_never_comes_back(self):
        job, nodes = self.freeze(0)
        job.finish(*nodes[1:])
        nodes[0].kill_all()

    def agent_only(self, who):
        """Stops only the agent, so its guard must kill the workers in time."""
        job, nodes, _ = self.form("2:3", 3, conf=SHORT_LEASE)
        agent = nodes[who].agent()
        workers = nodes[who].worker_pids()
        self.assertEqual(len(workers), 1)
        os.kill(agent, signal.SIGSTOP)
        rest = [node.label for node in nodes if node is not nodes[who]]
        job.round(2, nodes=rest)
        # The others are running, so these are dead, although they have not been reaped.
        self.assertIn(state(workers[0]), ("Z", "X", ""))
        os.kill(agent, signal.SIGCONT)
        job.round(3)
        job.finish(*nodes)

    def test_the_agent_of_a_member(self):
        self.agent_only(2)

    def test_the_agent_of_the_host(self):
        self.agent_only(0)

    def test_a_short_stop_is_no_loss(self):
        job, nodes, one = self.form("2:3", 3, conf=f"{NEVER},lease=20")
        for node in nodes:
            node.stop_all()
            node.thaw_at_once()
        job.finish(*nodes)
        self.assertEqual([each.name for each in job.story.rounds()], [one.name])

    def test_two_of_three_are_frozen_and_the_third_waits(self):
        # Both are stopped within one lease. Otherwise the first and the third are a majority.
        job, nodes, one = self.form("1:3", 3, conf=f"{NEVER},lease=4")
        for node in nodes[1:]:
            node.stop_all()
        # No majority: it stops its worker, names the missing nodes, and starts nothing.
        nodes[0].wait_for_text("because the other nodes may have continued", "silent")
        self.assertEqual([each.name for each in job.story.rounds()], [one.name])
        for node in nodes[1:]:
            node.thaw()
        job.round(3)
        job.finish(*nodes)

    def test_a_worker_alone_is_frozen_and_nobody_minds(self):
        job, nodes, one = self.form("2", 2, conf=LONG_LEASE)
        worker, = nodes[1].worker_pids()
        os.kill(worker, signal.SIGSTOP)
        eventually(lambda: state(worker) == "T", "the worker is stopped")
        os.kill(worker, signal.SIGCONT)
        job.finish(*nodes)
        self.assertEqual([each.name for each in job.story.rounds()], [one.name])

    def test_two_nodes_one_frozen_with_the_risk_taken(self):
        job = self.cluster("1:2", conf=SHORT_LEASE + ",allow_split_brain=true")
        job.may_be_two = True
        nodes = job.start_all(2)
        job.round(2)
        nodes[0].stop_all()
        job.round(1, nodes=["n2"])
        nodes[0].thaw()
        job.round(2)
        job.finish(*nodes)

    def test_two_nodes_and_the_first_is_frozen_without_the_risk(self):
        job, nodes, one = self.form("1:2", 2, conf=SHORT_LEASE)
        nodes[0].stop_all()
        nodes[1].wait_for_text("because the other nodes may have continued", "silent")
        self.assertEqual([each.name for each in job.story.rounds()], [one.name])
        nodes[0].thaw()
        job.round(2)
        job.finish(*nodes)

    def test_two_nodes_and_the_second_is_frozen(self):
        # Exactly half, including the lowest rank, so it continues.
        job, nodes, _ = self.form("1:2", 2, conf=SHORT_LEASE)
        nodes[1].stop_all()
        job.round(1, nodes=["n1"])
        nodes[1].thaw()
        job.round(2)
        job.finish(*nodes)
