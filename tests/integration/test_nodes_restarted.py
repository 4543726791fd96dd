# SPDX-License-Identifier: Apache-2.0
"""Nodes whose processes all die at once, as in a loss of power, and that are started again: with
their records the job continues, also where the others cannot know what became of them."""

import pathlib
import unittest

from harness import eventually
from nodes import LEASE, NodesCase

CONF = f"last_call_timeout=500,lease={LEASE}"


class Restarted(NodesCase):
    def records(self, job):
        return sorted(path.name for path in pathlib.Path(job.folder).glob("state/muster/rounds/*")
                      if path.suffix != ".lock")

    def lose(self, job, nodes, *who):
        """For longer than a lease: what a proof that comes later says about the time before is
        nothing."""
        for number in who:
            nodes[number].stop_all()
        rest = [node for number, node in enumerate(nodes) if number not in who]
        for node in rest:
            node.wait_for_text("(silent")
        for number in who:
            nodes[number].kill_all()

    def test_the_first_of_two(self):
        job = self.cluster("2", conf=CONF)
        nodes = job.start_all(2)
        one = job.round(2)
        self.lose(job, nodes, 0)
        job.start(1)
        again = job.round(2)
        self.assertEqual(again.nodes, ["n1~2", "n2"])
        self.assertEqual((one.restarts, again.restarts), (0, 0))
        job.finish(job.nodes[1], job.nodes[2])
        self.assertEqual(self.records(job), [])

    def test_all(self):
        job = self.cluster("3", conf=CONF)
        for node in job.start_all(3):
            job.round(3) if node.label == "n3" else None
        for node in job.nodes:
            node.kill_all()
        self.assertEqual(len(self.records(job)), 3)
        job.start_all(3)
        self.assertEqual(job.round(3).restarts, 0)
        job.finish(*job.nodes[3:])

    def test_without_a_record_the_other_one_waits_and_says_why(self):
        job = self.cluster("2", conf=CONF, options=["--state-dir=none"])
        nodes = job.start_all(2)
        job.round(2)
        self.lose(job, nodes, 0)
        job.start(1)
        nodes[1].wait_for_text("gone, after it may have gone on without us")
        self.assertEqual(self.records(job), [])

    def test_an_agent_that_is_killed_alone(self):
        job = self.cluster("2", conf=CONF)
        nodes = job.start_all(2)
        job.round(2)
        nodes[1].kill_agent()
        nodes[1].end()
        job.start(2)
        self.assertEqual(job.round(2).nodes, ["n1", "n2~2"])
        job.finish(nodes[0], job.nodes[2])

    def test_a_record_that_cannot_be_read_is_none(self):
        job = self.cluster("2", conf=CONF)
        job.start_all(2)
        job.round(2)
        for node in job.nodes:
            node.kill_all()
        for name in self.records(job):
            path = job.folder / "state/muster/rounds" / name
            path.write_bytes(path.read_bytes()[:-1])
        job.start_all(2)
        job.round(2)
        job.finish(*job.nodes[2:])

    def test_a_folder_that_cannot_be_made_is_no_fault(self):
        job = self.cluster("2", conf=CONF, options=["--state-dir=/proc/none"])
        nodes = job.start_all(2)
        job.round(2)
        job.finish(*nodes)


if __name__ == "__main__":
    unittest.main()
