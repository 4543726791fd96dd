# SPDX-License-Identifier: Apache-2.0
"""The collective library with one rank on each host, so that nobody shares its host: a rank that is
killed, and hosts that fall silent in the middle of a sum, are named by the others. (A silent one
after kSilence of lib/collective/tcp_socket.hpp: nothing is measured here, but none of these sums
has a deadline that would end it before the test does.)"""

import os
import subprocess
import unittest

from harness import eventually, read
from hosts import DNS, HostsCase

PUPPET = os.environ["MUSTER_COLLECTIVE_PUPPET"]
STORE = os.environ["MUSTER_STORE_BIN"]
WITHIN = 120  # s


class Silent(HostsCase):
    def setUp(self):
        super().setUp()
        self.ranks = []

    def spawn(self, *command, **how):
        process = subprocess.Popen(command, **how)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def serve(self):
        """On the switch: no host's end is that of the store."""
        file = self.folder / "port"
        self.spawn(*self.net.switch.prefix, STORE, "--bind", DNS, "--port", "0", "--port-file",
                   str(file))
        eventually(lambda: read(file).strip(), "the store listens")
        return read(file).strip()

    def sum_for_ever(self, count):
        """One rank on each host, in the middle of large sums."""
        hosts = self.hosts(*(f"node{i}" for i in range(1, count + 1)))
        port = self.serve()
        for rank, host in enumerate(hosts):
            environ = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(count),
                       "MASTER_ADDR": DNS, "MASTER_PORT": port,
                       "TORCHELASTIC_USE_AGENT_STORE": "True",
                       "MUSTER_COLLECTIVE_TIMEOUT": "1h"}
            process = self.spawn(*host.prefix, PUPPET, "for-ever", "staged", env=environ,
                                 stdout=subprocess.PIPE, text=True)
            self.addCleanup(process.stdout.close)
            self.ranks.append(process)
        for process in self.ranks:
            self.assertIn("begins", process.stdout.readline())
        return hosts

    def assert_named(self, rank, victim, words):
        text = self.ranks[rank].communicate(timeout=WITHIN)[0]
        self.assertRegex(text, f"^error peer_failed rank {victim} .*rank {victim} {words}")

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


if __name__ == "__main__":
    unittest.main()
