# SPDX-License-Identifier: Apache-2.0
"""Slow ranks and slow nodes of a multi-node job: the leading node reports them once, with the node;
the other nodes report nothing; if all are alike, none is reported."""
import json
import os
import pathlib

from harness import eventually
from job_view import ctl, status_of, wait_for_status, wait_until_ready
from nodes import LONG_LEASE, NodesCase
from test_stragglers import FOREVER, Quota, WORKER, named

QUOTA = 0.1  # of a CPU, for all workers on a node
ENOUGH_S = 20  # of steps, until ranks are judged


class SlowNodes(NodesCase):
    def workers(self, count, *args, ranks=2, nnodes=None, conf=""):
        """Nodes whose ranks reach each other through sockets, as on separate machines."""
        self.stop = self.folder / "stop"
        self.addCleanup(self.stop.touch)
        self.job = self.cluster(nnodes or str(count), conf=conf)
        nodes = []
        for number in range(1, count + 1):
            nodes.append(self.job.start(
                number, nproc=ranks, program=[WORKER, *map(str, args)],
                options=["--no-python", "--log-dir", self.folder / f"logs{number}"],
                env={"STOP_FILE": str(self.stop), "MUSTER_COLLECTIVE_HOST": f"host{number}"}))
            if number == 1:
                eventually(self.job.is_hosted, "the first node hosts")
        return nodes

    def finish(self, nodes):
        self.stop.touch()
        return self.job.ends(*nodes)

    def events(self, number, name):
        [path] = self.folder.glob(f"logs{number}/**/events.jsonl")
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        return [line for line in lines if line["event"] == name]

    def assert_quiet(self, node, number):
        self.assertNotIn("slow", node.err())
        self.assertEqual(self.events(number, "straggler"), [])

    def test_a_rank_of_another_node(self):
        nodes = self.workers(2, FOREVER, 20, "nap", "tell", 3, 20)
        status = wait_for_status(nodes[0], named, "rank 3 is named")
        self.assertEqual(named(status), [3])
        self.assertEqual(len(status["straggler"]["nodes"]), 1)
        text = ctl("status", "--pid", nodes[0].process.pid)
        self.assertRegex(text, r"slow since \S+: rank 3 on '[^']+ \(2\)' is slow: it costs the job")
        first, second = self.finish(nodes)
        self.assertEqual(first.err.count("is slow"), 1, str(first))
        [event] = self.events(1, "straggler")
        [place] = event["places"]
        self.assertEqual((event["ranks"], place["ranks"], place["whole"]), ([3], [3], False))
        self.assertGreater(event["lost_seconds"], 0.005)
        self.assert_quiet(nodes[1], 2)

    def test_a_node_with_too_little_of_a_processor(self):
        if os.geteuid() != 0 or not pathlib.Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").exists():
            self.skipTest("needs root and a cpu cgroup of version 1")
        nodes = self.workers(2, FOREVER, 5, "spin", "tell")
        status = wait_until_ready(nodes[1])
        with Quota([worker["pid"] for worker in status["workers"]], QUOTA):
            text = nodes[0].wait_for_text("is slow: it costs the job")
            self.assertRegex(text, r"node '[^']+ \(2\)' \(ranks 2, 3\) is slow: it costs the job")
        nodes[0].wait_for_text("(ranks 2, 3) is no longer slow")
        self.finish(nodes)
        [event] = self.events(1, "straggler")
        [place] = event["places"]
        self.assertEqual((event["ranks"], place["ranks"], place["whole"]), ([2, 3], [2, 3], True))
        self.assert_quiet(nodes[1], 2)

    def test_of_nodes_that_are_alike_none_is_named(self):
        nodes = self.workers(2, FOREVER, 20, "nap", "tell")
        eventually(lambda: self.long_watched(nodes[0]), "steps enough")
        waits = [worker["waits"] for worker in status_of(nodes[1])["workers"]]
        self.assertEqual([share is None for share in waits], [False, False])
        self.finish(nodes)
        for number, node in enumerate(nodes, 1):
            self.assert_quiet(node, number)

    def long_watched(self, job):
        status = status_of(job)
        return (status and status["rounds"] and
                status["time"] - status["rounds"][0]["begun"] > ENOUGH_S)

    def test_who_leads_next_names_it_again(self):
        nodes = self.workers(3, FOREVER, 20, "nap", "tell", 1, 20, ranks=1, nnodes="2:3",
                             conf=LONG_LEASE)
        nodes[0].wait_for_text("rank 1 on ")
        nodes[0].kill_all()
        eventually(lambda: "rank 1 on " in nodes[1].err() + nodes[2].err(),
                   lambda: f"it is named again\n{self.job.describe()}")
        self.stop.touch()
        self.job.ends(*nodes[1:])
