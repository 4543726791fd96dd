# SPDX-License-Identifier: Apache-2.0
"""Workers that reach their store through the launchers (--store-via=proxy), on nodes that die, fall
silent and return. Each worker keeps connections open that wait for keys that are never set."""

import contextlib
import os
import sys

from harness import eventually
from hosts import HostsCase
from nodes import WORKER

HELD = 4
# Opens connections through the proxy and passes them on to the real worker.
HOLDER = """
import os, socket, struct, sys
greeting = b"\\0" + struct.pack("<I", 0x3C85F7CE)
ping = b"\\x0d" + struct.pack("<I", 7)
key = b"/never"
wait = b"\\x06" + struct.pack("<Q", 1) + struct.pack("<Q", len(key)) + key
for _ in range(int(sys.argv[1])):
    link = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), 20)
    link.settimeout(20)
    link.sendall(greeting + ping)
    assert link.recv(4) == struct.pack("<I", 7)
    link.sendall(wait)
    link.set_inheritable(True)
    link.detach()
os.execv(sys.argv[2], sys.argv[2:])
"""
ELASTIC = "last_call_timeout=500,lease=1"


class Proxied(HostsCase):
    def begin(self, nnodes="2:3", **how):
        self.hosts()
        how.setdefault("conf", ELASTIC)
        options = ["--store-via=proxy", "--max-restarts=3", *how.pop("options", [])]
        self.job = self.cluster(nnodes, options=options, **how)
        holder = self.folder / "holder.py"
        holder.write_text(HOLDER)
        self.program = [sys.executable, str(holder), str(HELD), WORKER]

    def start(self, *numbers, options=()):
        return [self.job.start(number, program=self.program, options=list(options))
                for number in numbers]

    def round(self, world, *names):
        """A round in which each worker has reached its store through its own node."""
        one = self.job.round(world)
        self.assertEqual(sorted(one.nodes), sorted(names))
        self.assertEqual({env["MASTER_ADDR"] for env in one.env.values()}, {"127.0.0.1"})
        return one

    def sockets(self, node):
        folder = f"/proc/{node.agent()}/fd"
        count = 0
        for fd in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):  # the agent has just closed it
                count += os.readlink(f"{folder}/{fd}").startswith("socket:")
        return count

    def finish(self, count):
        ended = self.job.finish()
        self.assertEqual(len(ended), count)

    def test_the_node_of_rank_0_dies_and_comes_back(self):
        self.begin()
        nodes = self.start(1, 2, 3)
        one = self.round(3, "node1", "node2", "node3")
        self.assertEqual(one.nodes[0], "node1")
        nodes[0].kill_all()
        self.assertEqual(self.round(2, "node2", "node3").restarts, one.restarts)
        self.start(1)
        self.round(3, "node1~2", "node2", "node3")
        self.finish(3)

    def test_the_node_of_rank_0_is_cut_off(self):
        self.begin()
        self.start(1, 2, 3)
        self.assertEqual(self.round(3, "node1", "node2", "node3").nodes[0], "node1")
        self.net.hosts[0].unplug()
        self.round(2, "node2", "node3")
        self.net.hosts[0].plug()
        self.round(3, "node1", "node2", "node3")
        self.finish(3)

    def test_another_node_dies_and_comes_back_and_nothing_of_it_stays(self):
        self.begin()
        nodes = self.start(1, 2, 3)
        self.round(3, "node1", "node2", "node3")
        full = self.sockets(nodes[0])
        nodes[2].kill_all()
        self.round(2, "node1", "node2")
        # The store's node has three sockets for each connection of a worker on another node.
        eventually(lambda: self.sockets(nodes[0]) <= full - 3 * HELD,
                   lambda: f"{self.sockets(nodes[0])} sockets are left of {full}")
        self.start(3)
        self.round(3, "node1", "node2", "node3~2")
        eventually(lambda: self.sockets(nodes[0]) <= full,
                   lambda: f"{self.sockets(nodes[0])} sockets, and {full} before")
        self.finish(3)

    def test_another_node_is_cut_off(self):
        self.begin()
        self.start(1, 2, 3)
        self.round(3, "node1", "node2", "node3")
        self.net.hosts[2].unplug()
        self.round(2, "node1", "node2")
        self.net.hosts[2].plug()
        self.round(3, "node1", "node2", "node3")
        self.finish(3)

    def test_the_agent_of_rank_0_dies_and_its_workers_with_it(self):
        self.begin()
        nodes = self.start(1, 2, 3)
        self.round(3, "node1", "node2", "node3")
        nodes[0].kill_agent()
        self.round(2, "node2", "node3")
        self.assertNotEqual(nodes[0].end().code, 0)
        self.finish(2)

    # -- static -------------------------------------------------------------------------------

    def begin_static(self):
        self.begin("3", backend="static", conf="last_call_timeout=500,lease=1,join_timeout=60")
        return [self.start_static(number) for number in (1, 2, 3)]

    def start_static(self, number):
        return self.start(number, options=[f"--node-rank={number - 1}"])[0]

    def test_static_forms_and_starts_again_after_a_failure(self):
        self.begin_static()
        one = self.round(3, "node1", "node2", "node3")
        self.assertEqual(one.nodes, ["node1", "node2", "node3"])
        self.job.order(one, 1, "exit 3")
        again = self.round(3, "node1", "node2", "node3")
        self.assertEqual(again.restarts, one.restarts + 1)
        self.finish(3)

    def test_static_a_node_dies_and_comes_back(self):
        nodes = self.begin_static()
        self.round(3, "node1", "node2", "node3")
        nodes[1].kill_all()
        self.start_static(2)
        again = self.round(3, "node1", "node2~2", "node3")
        self.assertEqual(again.nodes, ["node1", "node2~2", "node3"])
        self.finish(3)

    def test_static_the_node_of_rank_0_dies_and_comes_back(self):
        nodes = self.begin_static()
        self.round(3, "node1", "node2", "node3")
        nodes[0].kill_all()
        self.start_static(1)
        again = self.round(3, "node1~2", "node2", "node3")
        self.assertEqual(again.nodes, ["node1~2", "node2", "node3"])
        self.finish(3)
