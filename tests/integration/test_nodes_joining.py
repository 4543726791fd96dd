# SPDX-License-Identifier: Apache-2.0
"""Nodes that join a running job: if there is room, it regroups with them; at its maximum they are
spares. Nodes that hang, are refused or leave again disturb no other node."""

import signal
import socket

from harness import eventually
from nodes import LEASE, NodesCase

CONF = "last_call_timeout=0.3,lease=60"
SPARE = "this node is waiting to be admitted"


class Joining(NodesCase):
    def grow(self, old, new):
        job = self.cluster("1:2", conf=CONF)
        job.start(old)
        one = job.round(1)
        job.start(new)
        both = job.round(2)
        self.assertEqual(both.nodes, [f"n{number}" for number in sorted((old, new))])
        self.assertEqual(both.restarts, 0)
        self.assertNotEqual(one.env[0]["MASTER_PORT"], both.env[0]["MASTER_PORT"])
        job.finish()

    def test_a_newcomer_that_sorts_after_the_old_rank_0(self):
        self.grow(2, 3)

    def test_a_newcomer_that_sorts_before_the_old_rank_0(self):
        self.grow(3, 2)

    def replaced(self, dead, new):
        """One of two dies, and another one takes its place."""
        job = self.cluster("2", conf=CONF)
        nodes = {number: job.start(number) for number in (4, 6)}
        job.round(2)
        nodes[dead].kill_all()
        fresh = job.start(new)
        both = job.round(2)
        left, = set(nodes) - {dead}
        self.assertEqual(both.nodes, [f"n{number}" for number in sorted((left, new))])
        job.finish(nodes[left], fresh)

    def test_one_that_replaces_a_dead_one_and_sorts_before(self):
        self.replaced(6, 3)

    def test_one_that_replaces_a_dead_one_and_sorts_after(self):
        self.replaced(6, 7)

    def test_one_that_replaces_the_dead_host_and_sorts_before(self):
        self.replaced(4, 3)

    def test_one_that_replaces_the_dead_host_and_sorts_after(self):
        self.replaced(4, 7)

    def test_up_one_by_one(self):
        job = self.cluster("1:4", conf=CONF)
        for number in (2, 4, 1, 3):
            job.start(number)
            one = job.round(len(job.nodes))
        self.assertEqual(one.nodes, ["n1", "n2", "n3", "n4"])
        self.assertEqual(one.restarts, 0)
        job.finish()

    def test_deferred_by_a_setting(self):
        job = self.cluster("1:2", conf=CONF + ",join_delay=never", options=["--max-restarts", 1])
        job.start(1)
        one = job.round(1)
        second = job.start(2)
        second.wait_for_text(SPARE)
        self.assertEqual([each.name for each in job.story.rounds()], [one.name])
        job.order(one, 0, "exit 5")  # now it regroups for a different reason
        both = job.round(2)
        self.assertEqual(both.nodes, ["n1", "n2"])
        job.finish()


class Spares(NodesCase):
    def test_one_steps_in_when_a_member_dies(self):
        job, nodes, one = self.form("3", 3, conf=CONF)
        spare = job.start(4)
        spare.wait_for_text(SPARE)
        self.assertIn("the job is running on 3 nodes", spare.err())
        self.assertEqual([each.name for each in job.story.rounds()], [one.name])
        nodes[1].kill_all()
        again = job.round(3)
        self.assertEqual((again.nodes, again.restarts), (["n1", "n3", "n4"], 0))
        job.finish(nodes[0], nodes[2], spare)

    def test_one_steps_in_for_the_host(self):
        job, nodes, _ = self.form("3", 3, conf=CONF)
        spare = job.start(4)
        spare.wait_for_text(SPARE)
        nodes[0].kill_agent()
        self.assertEqual(job.round(3).nodes, ["n2", "n3", "n4"])
        job.finish(nodes[1], nodes[2], spare)

    def test_a_spare_ends_well_with_a_job_that_did_not_need_it(self):
        job, nodes, _ = self.form("2", 2, conf=CONF)
        spare = job.start(3)
        spare.wait_for_text(SPARE)
        job.finish(*nodes)
        ended, = job.ends(spare, code=0)
        self.assertIn("the job has ended; this node was never needed", ended.err)

    def test_a_spare_outlives_its_join_timeout(self):
        job, nodes, _ = self.form("2", 2, conf=CONF)
        spare = job.start(3, conf=CONF + ",join_timeout=5")
        spare.wait_for_text(SPARE)
        with self.assertRaises(AssertionError):
            eventually(lambda: spare.process.poll() is not None, "must not end", within=6)
        job.finish(*nodes)
        job.ends(spare, code=0)

    def test_a_spare_that_dies_is_no_loss(self):
        job, nodes, one = self.form("2", 2, conf=CONF)
        for kill in ("kill_all", "kill_agent"):
            spare = job.start(3)
            spare.wait_for_text(SPARE)
            getattr(spare, kill)()
            spare.process.wait()
        spare = job.start(3)
        spare.wait_for_text(SPARE)
        spare.kill(signal.SIGTERM)
        job.ends(spare, code=143)
        job.finish(*nodes)
        self.assertEqual([each.name for each in job.story.rounds()], [one.name])


class Unfinished(NodesCase):
    def members(self, job):
        host, port = job.endpoint.rsplit(":", 1)
        return host, int(port)

    def test_joins_that_hang_do_not_disturb(self):
        job, nodes, one = self.form("2:3", 2, conf=f"last_call_timeout=0.3,lease={LEASE}")
        hung = job.start(3, popen={"prefix": ["setsid"]})
        # Stopped as soon as it has a connection, or at the latest when it would have run.
        hung.stop_all()
        strangers = [socket.create_connection(self.members(job)) for _ in range(20)]
        for stranger in strangers:
            self.addCleanup(stranger.close)
        # On a busy machine it may be a member by now. Then the two first continue without it,
        # because a node that has finished leaves, and would not return for a round that needs a
        # silent member.
        hung.kill_all()
        eventually(lambda: job.story.rounds()[-1].world == 2, job.describe)
        job.finish(*nodes)
        # Either it never reported that it was ready, or the job had started to regroup for it and
        # then continued without it. In no case did the job stop.
        self.assertIn(one.name, [each.name for each in job.story.rounds()])

    def test_nodes_that_come_and_go_at_once(self):
        job, nodes, _ = self.form("2:3", 2, conf=f"last_call_timeout=0.3,lease={LEASE}")
        for _ in range(5):
            passer_by = job.start(3)
            passer_by.kill_all()
            passer_by.process.wait()
        eventually(lambda: job.story.rounds()[-1].world == 2, "the two run again")
        last = job.start(4)
        job.round(3, nodes=["n1", "n2", "n4"])
        job.finish(*nodes, last)
