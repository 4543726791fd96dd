# SPDX-License-Identifier: Apache-2.0
"""--port-range confines every listening socket of a job, and sockets listen only where they
must."""

import os
import pathlib
import socket
import struct

from harness import eventually, free_port
from nodes import NEVER, NodesCase


def address_of(text):
    """"0100007F:1F90" or the longer form for IPv6, as in /proc/net/tcp."""
    host, port = text.split(":")
    parts = [int(host[i:i + 8], 16) for i in range(0, len(host), 8)]
    raw = struct.pack(f"={len(parts)}I", *parts)
    family = socket.AF_INET if len(raw) == 4 else socket.AF_INET6
    return socket.inet_ntop(family, raw), int(port, 16)


def listening(pids):
    """(address, port) of the listening sockets of these processes."""
    sockets = set()
    for pid in pids:
        for fd in pathlib.Path(f"/proc/{pid}/fd").glob("*"):
            try:
                sockets.add(os.readlink(fd))
            except OSError:
                pass
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                found.add(address_of(fields[1]))
    return found


class Ports(NodesCase):
    def sockets(self, job):
        return {node.label: listening(node.pids()) for node in job.nodes}

    def range(self, size):
        first = free_port(count=size)
        return first, first + size - 1

    def test_all_of_them_are_inside_and_on_the_addresses_that_were_given(self):
        first, last = self.range(20)
        job, _, one = self.form("3", 3, conf=NEVER, endpoint=f"127.0.0.1:{first}",
                                options=["--port-range", f"{first}-{last}", "--max-restarts", 1])
        for turn in (0, 1):
            sockets = self.sockets(job)
            for number in (1, 2, 3):
                mine = sockets[f"n{number}"]
                self.assertEqual({host for host, _ in mine}, {f"127.0.0.{number}"})
                self.assertTrue(all(first <= port <= last for _, port in mine), mine)
            # Endpoint, own listener and the workers' store; the other nodes have only their own
            # listener.
            self.assertEqual([len(sockets[label]) for label in ("n1", "n2", "n3")], [3, 1, 1])
            self.assertTrue(first <= int(one.env[0]["MASTER_PORT"]) <= last)
            if turn == 0:
                job.order(one, 1, "exit 3")
                one = job.round(3)
        job.finish()

    def test_agents_of_one_address_share_a_range(self):
        first, last = self.range(12)
        job, *_ = self.form("4", 4, conf=NEVER, endpoint=f"127.0.0.1:{first}", addresses=None,
                              options=["--port-range", f"{first}-{last}"])
        found = [place for places in self.sockets(job).values() for place in places]
        self.assertEqual(len(found), len(set(found)))
        self.assertEqual(len(found), 6)
        self.assertTrue(all(first <= port <= last for _, port in found), found)
        job.finish()

    def test_a_range_that_is_too_small_says_so(self):
        first = free_port()
        job = self.cluster("2", conf=NEVER, endpoint=f"127.0.0.1:{first}", addresses=None,
                           options=["--port-range", f"{first}-{first}"])
        ended, = job.ends(job.start(1), code=70)
        self.assertIn(f"{first}", ended.err)

    def test_without_a_range_only_the_addresses_that_matter(self):
        job, *_ = self.form("2", 2, conf=NEVER)
        sockets = self.sockets(job)
        self.assertEqual({host for host, _ in sockets["n1"]}, {"127.0.0.1"})
        self.assertEqual({host for host, _ in sockets["n2"]}, {"127.0.0.2"})
        job.finish()

    def test_after_a_takeover_as_well(self):
        first, last = self.range(20)
        endpoint = f"127.0.0.1:{first}"
        job, nodes, _ = self.form("2:3", 3, conf=NEVER, endpoint=endpoint,
                                  options=["--port-range", f"{first}-{last}"])
        nodes[0].kill_all()
        job.round(2)
        # The endpoint is on this machine, so a successor may listen there for newcomers.
        eventually(lambda: ("127.0.0.1", first) in listening(nodes[1].pids()),
                   "the successor listens at the endpoint")
        for node in nodes[1:]:
            mine = listening(node.pids())
            self.assertTrue(all(first <= port <= last for _, port in mine), mine)
        job.start(4)
        job.round(3, nodes=["n2", "n3", "n4"])
        job.finish(*nodes[1:], job.nodes[-1])
