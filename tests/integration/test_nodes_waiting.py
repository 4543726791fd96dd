# SPDX-License-Identifier: Apache-2.0
"""What a node prints while it waits for the others, and when it gives up."""

import os
import pty
import re
import socket
import threading
import time
import unittest

from harness import eventually, free_port
from nodes import NEVER, SHORT_LEASE, NodesCase

QUIET_NS = 1_000_000_000  # a node that waits for less time prints nothing

class RollCall(NodesCase):
    def test_a_line_for_each_change_on_a_pipe(self):
        job = self.cluster("3", conf=NEVER)
        first = job.start(1)
        first.wait_for_text("1 of 3 nodes is here")
        second = job.start(2)
        for node in (first, second):
            node.wait_for_text("2 of 3 nodes are here")
        began = time.monotonic_ns()
        third = job.start(3)
        workers = job.round(3).workers
        job.finish()
        lines = first.err().splitlines()
        self.assertEqual(len(lines), 2, lines)
        self.assertRegex(lines[0], r"^muster: 1 of 3 nodes is here: \S+; waiting for 2 more; "
                                   r"giving up in \d+ s$")
        self.assertRegex(lines[1], r"^muster: 2 of 3 nodes are here: \S+, \S+; waiting for 1 "
                                   r"more; giving up in \d+ s$")
        worker, = (each for each in workers.values() if each["node"] == "n3")
        if worker["at"] - began < QUIET_NS:  # otherwise a slow machine kept it waiting
            self.assertEqual(third.err(), "", "a node that does not wait prints nothing")

    def test_quiet_where_asked(self):
        job = self.cluster("2", conf="join_timeout=2", options=["--log-level", "error"])
        ended, = job.ends(job.start(1), code=69)
        self.assertEqual(len(ended.err.splitlines()), 1, ended)

    def test_a_live_line_on_a_terminal(self):
        job = self.cluster("3", conf=NEVER)
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        said = bytearray()

        def read():
            try:
                while part := os.read(ours, 4096):
                    said.extend(part)
            except OSError:  # the last one has closed it
                pass

        reader = threading.Thread(target=read)
        reader.start()
        first = job.start(1, popen={"stderr": theirs})
        os.close(theirs)
        eventually(lambda: b"1 of 3" in said, "the line appears")
        job.start(2)
        eventually(lambda: b"2 of 3" in said, "it changes")
        job.start(3)
        job.round(3)
        job.finish()
        self.assertIsNotNone(first.process.poll())
        reader.join()
        self.assertNotIn(b"\n", said, "it stays one line")
        screen = re.split(rb"\r\x1b\[K", bytes(said))
        self.assertEqual(screen[-1], b"", "and is gone when the workers start")

    def test_a_regroup_says_for_whom(self):
        job, nodes, _ = self.form("3", 3, conf=SHORT_LEASE)
        nodes[2].stop_all()
        # Not only the count, which a slow machine prints before the first round, too.
        eventually(lambda: re.search(r"2 of 3 nodes are here: .*; waiting for \S+ \(silent",
                                     nodes[0].err()), job.describe)
        nodes[2].thaw()
        job.round(3)
        job.finish()


class Trouble(NodesCase):
    def trouble(self, *texts, endpoint, **how):
        job = self.cluster("2", conf="join_timeout=4", addresses=None, endpoint=endpoint)
        node = job.start(1, **how)
        ended, = job.ends(node, code=69)
        for some in texts:
            self.assertIn(some, ended.err)
        return ended

    def test_refused(self):
        # is_host=false: otherwise this machine would be the host.
        job = self.cluster("2", conf="join_timeout=3,is_host=false")
        ended, = job.ends(job.start(1), code=69)
        self.assertIn(f"cannot reach {job.endpoint}: Connection refused; trying again", ended.err)
        last = ended.err.splitlines()[-1]
        self.assertIn("no round of job", last)
        self.assertIn("Connection refused", last)

    def test_no_such_name(self):
        self.trouble("no-such-node.invalid", endpoint=f"no-such-node.invalid:{free_port()}")

    @unittest.skipUnless(os.getuid() == 0, "a network without a route needs root")
    def test_unreachable(self):
        job = self.cluster("2", conf="join_timeout=3", addresses=None,
                           endpoint="198.51.100.1:29400")
        node = job.start(1, popen={"prefix": ["unshare", "--net"]})
        ended, = job.ends(node, code=69)
        self.assertRegex(ended.err, r"cannot reach 198.51.100.1:29400: .*unreachable")

    def test_a_server_that_says_nothing(self):
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            server.listen()
            self.trouble("127.0.0.1", endpoint=f"127.0.0.1:{server.getsockname()[1]}")


class GivesUp(NodesCase):
    def test_what_is_missing_by_number(self):
        # The second one may start seconds after the first one, whose time includes that.
        job = self.cluster("3:4", conf="join_timeout=8")
        first, second = job.ends(*job.start_all(2), code=69)
        self.assertRegex(first.err.splitlines()[-1],
                         r"^muster: no round of job .* was formed within 8s; 2 of 4 nodes are "
                         r"here: \S+, \S+; waiting for 2 more$")
        # The second one gives up when its own time expires, or when it is left alone a moment
        # before.
        self.assertIn("2 of 4 nodes are here", second.err)
        self.assertIn("was formed within 8s", second.err)

    def test_what_is_missing_by_name(self):
        job, nodes, _ = self.form("2:3", 2, conf="last_call_timeout=0.2,lease=1,join_timeout=8")
        nodes[0].stop_all()
        ended, = job.ends(nodes[1], code=69)
        self.assertRegex(ended.err.splitlines()[-1], r"waiting for \S+ \(silent")
        nodes[0].kill_all()

    def test_a_worlds_end_is_never_a_world_of_one(self):
        job = self.cluster("2", conf="join_timeout=1.5")
        job.ends(job.start(1), code=69)
        self.assertEqual(job.story.events(), [])
