# SPDX-License-Identifier: Apache-2.0
"""Nodes whose processes all die at once, as in a power failure, and that are restarted: with their
records the job continues, even if the others cannot know what happened to them."""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

from harness import MUSTER, free_port
from job_view import MUSTERCTL, ctl
from nodes import SHORT_LEASE, NodesCase


class Restarted(NodesCase):
    def records(self, job):
        return sorted(path.name for path in pathlib.Path(job.folder).glob("state/muster/rounds/*")
                      if path.suffix != ".lock")

    def lose(self, job, nodes, *who):
        """Stops these nodes for longer than a lease and then kills them, so that proof of their
        death says nothing about the time before."""
        for number in who:
            nodes[number].stop_all()
        rest = [node for number, node in enumerate(nodes) if number not in who]
        for node in rest:
            node.wait_for_text("(silent")
        for number in who:
            nodes[number].kill_all()

    def test_the_first_of_two(self):
        job, nodes, one = self.form("2", 2, conf=SHORT_LEASE)
        self.lose(job, nodes, 0)
        job.start(1)
        again = job.round(2)
        self.assertEqual(again.nodes, ["n1~2", "n2"])
        self.assertEqual((one.restarts, again.restarts), (0, 0))
        job.finish(job.nodes[1], job.nodes[2])
        self.assertEqual(self.records(job), [])

    def test_all(self):
        job = self.cluster("3", conf=SHORT_LEASE)
        for node in job.start_all(3):
            job.round(3) if node.label == "n3" else None
        for node in job.nodes:
            node.kill_all()
        self.assertEqual(len(self.records(job)), 3)
        job.start_all(3)
        self.assertEqual(job.round(3).restarts, 0)
        job.finish(*job.nodes[3:])

    @unittest.skipUnless(shutil.which("strace"), "needs strace")
    def test_a_record_survives_a_power_failure(self):
        """The file and then its new name are on the disk before the second round starts. The first
        round does not wait for the disk."""
        trace = self.folder / "trace"
        env = {**os.environ, "XDG_STATE_HOME": str(self.folder), "ASAN_OPTIONS": "detect_leaks=0"}
        subprocess.run(["strace", "-f", "-y", "-o", trace, "-e", "trace=fsync,rename", MUSTER,
                        "--nnodes=1:2", "--rdzv-backend=c10d", "--token=none",
                        "--max-restarts=1",
                        f"--rdzv-endpoint=127.0.0.1:{free_port()}",
                        "--rdzv-conf=last_call_timeout=0.1", "--no-python", "sh", "-c",
                        "exit $((1 - TORCHELASTIC_RESTART_COUNT))"],
                       env=env, check=True, capture_output=True)
        rounds = re.escape(f"{self.folder}/muster/rounds")
        said = trace.read_text()
        self.assertEqual(said.count("fsync("), 2, said)
        self.assertLess(said.index("rename("), said.index("fsync("), "the first round")
        self.assertRegex(said, rf"(?s)fsync\(\d+<{rounds}/\S+\.new>\) += 0\n"
                               rf"[^\n]*rename\(\"{rounds}/\S+\.new\", [^\n]*\) += 0\n"
                               rf"[^\n]*fsync\(\d+<{rounds}>\) += 0\n")

    def waiting(self):
        """A two-node job whose first node returns without its record, and the name of this node."""
        job, nodes, _ = self.form("2", 2, conf=SHORT_LEASE, options=["--state-dir=none"])
        self.lose(job, nodes, 0)
        job.start(1)
        said = nodes[1].wait_for_text("may have continued without us until then; "
                                      "if it did not, run muster")
        self.assertEqual(self.records(job), [])
        return job, re.search(r"musterctl forget (\S+)\)", said)[1]

    def test_without_a_record_the_user_declares_the_old_node_dead(self):
        job, name = self.waiting()
        _, waits, again = job.nodes
        for node, other, why in ((waits, "nowhere", "not waiting for a lost node 'nowhere'"),
                                 (again, name, "leads this job: run musterctl forget")):
            said = ctl("forget", other, "--pid", node.process.pid, code=1)
            self.assertIn(why, said)
            self.assertEqual(said.count("\n"), 1)
        done = subprocess.run([MUSTERCTL, "forget", name, "--pid", str(waits.process.pid)],
                              capture_output=True, text=True)
        self.assertEqual(done.stdout, f"{name}: declared dead; the job no longer waits for it\n")
        self.assertIn("warning: if a process of this job is still running", done.stderr)
        job.round(2)
        waits.wait_for_text("was declared dead by musterctl forget")
        job.finish(waits, again)

    def test_an_agent_that_is_killed_alone(self):
        job, nodes, _ = self.form("2", 2, conf=SHORT_LEASE)
        nodes[1].kill_agent()
        nodes[1].end()
        job.start(2)
        self.assertEqual(job.round(2).nodes, ["n1", "n2~2"])
        job.finish(nodes[0], job.nodes[2])

    def test_a_record_that_cannot_be_read_is_none(self):
        job, *_ = self.form("2", 2, conf=SHORT_LEASE)
        for node in job.nodes:
            node.kill_all()
        for name in self.records(job):
            path = job.folder / "state/muster/rounds" / name
            path.write_bytes(path.read_bytes()[:-1])
        first, second = job.start_all(2)
        job.round(2)
        for node, ended in zip((first, second), job.finish(first, second)):
            torn = [line for line in node.err().splitlines() if " is truncated or corrupt" in line]
            self.assertEqual(len(torn), 1, ended)
            self.assertIn("ignoring it and joining as a new node", torn[0])

    def test_a_folder_that_cannot_be_made_is_no_fault(self):
        job = self.cluster("2", conf=SHORT_LEASE, options=["--state-dir=/proc/none"])
        first = job.start(1, options=["--log-level=info"])
        second = job.start(2)
        job.round(2)
        job.finish(first, second)
        self.assertIn("info: cannot create /proc/none/rounds: No such file or directory; after a "
                      "restart this node cannot recover its rounds\n", first.err())
        self.assertNotIn("/proc/none", second.err())

    def test_a_job_that_gives_up_leaves_no_record(self):
        job, nodes, _ = self.form("2", 2, conf=SHORT_LEASE + ",join_timeout=8")
        nodes[0].stop_all()
        self.assertEqual(len(self.records(job)), 2)
        job.ends(nodes[1], code=69)
        self.assertEqual(len(self.records(job)), 1)
        nodes[0].kill_all()
