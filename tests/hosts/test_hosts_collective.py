# SPDX-License-Identifier: Apache-2.0
"""The collective library with one rank on each host, so that no two ranks share a host. If a rank
is killed, or a host falls silent in the middle of a sum, the other ranks name it. (A silent host is
detected after kSilence in collective/tcp/tcp_socket.hpp. The tests do not measure this time, but
none of these sums has a deadline that would expire before the test's.)"""

import os
import subprocess

from harness import eventually, read, spawn
from hosts import DNS, HostsCase

PUPPET = os.environ["MUSTER_COLLECTIVE_PUPPET"]
STORE = os.environ["MUSTER_STORE_BIN"]
WITHIN = 120  # s


class Silent(HostsCase):
    def setUp(self):
        super().setUp()
        self.ranks = []

    def serve(self):
        """On the switch, so that the store does not end with a host."""
        file = self.folder / "port"
        spawn(self, [*self.net.switch.prefix, STORE, "--bind", DNS, "--port", "0", "--port-file",
                     file])
        return eventually(lambda: read(file).strip(), "the store listens")

    def sum_for_ever(self, count):
        """One rank on each host, in the middle of large sums."""
        hosts = self.hosts(*(f"node{i}" for i in range(1, count + 1)))
        port = self.serve()
        for rank, host in enumerate(hosts):
            environ = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(count),
                       "MASTER_ADDR": DNS, "MASTER_PORT": port,
                       "TORCHELASTIC_USE_AGENT_STORE": "True",
                       "MUSTER_COLLECTIVE_TIMEOUT": "1h"}
            self.ranks.append(spawn(self, [*host.prefix, PUPPET, "for-ever", "staged"], env=environ,
                                    stdout=subprocess.PIPE, text=True))
        for process in self.ranks:
            self.assertIn("begins", process.stdout.readline())
        return hosts

    def assert_named(self, rank, victim, reason):
        text = self.ranks[rank].communicate(timeout=WITHIN)[0]
        self.assertRegex(text, f"^error peer_failed rank {victim} .*rank {victim} {reason}")

    def test_a_killed_rank_that_is_alone_on_its_host(self):
        self.sum_for_ever(3)
        self.ranks[1].kill()
        for rank in (0, 2):
            self.assert_named(rank, 1, "has died")

    def test_a_link_that_is_cut(self):
        hosts = self.sum_for_ever(2)
        hosts[1].unplug()
        self.assert_named(0, 1, "has died, or its host cannot be reached: ")
        self.assert_named(1, 0, "has died, or its host cannot be reached: ")

    def test_a_host_that_takes_and_sends_no_packets(self):
        hosts = self.sum_for_ever(2)
        hosts[1].firewall("drop")
        self.assert_named(0, 1, "has died, or its host cannot be reached: ")
        self.assert_named(1, 0, "has died, or its host cannot be reached: ")


class LinkLocal(HostsCase):
    def test_ranks_meet_over_link_local_addresses(self):
        """Two interfaces with different names, as two machines may have them."""
        hosts = self.hosts("node1", "node2")
        hosts[0].ip("addr add fe80::1/64 dev eth0 nodad")
        hosts[1].ip("link set eth0 down", "link set eth0 name ib0", "link set ib0 up",
                    "addr add fe80::2/64 dev ib0 nodad")
        file = self.folder / "port"
        spawn(self, [*hosts[0].prefix, STORE, "--bind", "fe80::1%eth0", "--port", "0",
                     "--port-file", file])
        eventually(lambda: read(file).strip(), "the store listens")
        ranks = []
        for rank, interface in enumerate(("eth0", "ib0")):
            environ = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2",
                       "MASTER_ADDR": f"fe80::1%{interface}", "MASTER_PORT": read(file).strip(),
                       "TORCHELASTIC_USE_AGENT_STORE": "True"}
            ranks.append(spawn(self, [*hosts[rank].prefix, PUPPET, "sums"], env=environ,
                               stdout=subprocess.PIPE, text=True))
        texts = {process.communicate(timeout=WITHIN)[0] for process in ranks}
        self.assertRegex(" ".join(texts), r"\Asums [0-9a-f]{16} of 2 by tcp\n\Z")
