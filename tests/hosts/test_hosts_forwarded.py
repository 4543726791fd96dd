# SPDX-License-Identifier: Apache-2.0
"""The first host is behind the inbound half of a sidecar: connections from other hosts arrive from
its own machine, as a different user."""

import os
import pathlib
import subprocess
import sys
import unittest

import munge
from harness import spawn
from hosts import HostsCase

SIDECAR = pathlib.Path(__file__).resolve().parent / "sidecar.py"
PORT, USER = 15006, 1337
NO_HOME = {"HOME": "/proc/nobody", "XDG_CONFIG_HOME": ""}
MESH = f"""table ip mesh {{
 chain in {{
  type nat hook prerouting priority -100;
  ip saddr 10.77.0.2 meta l4proto tcp tcp dport != {PORT} redirect to :{PORT}
 }}
}}
"""


class Forwarded(HostsCase):
    def begin(self, *options, token=False, munge_key=None):
        first = self.hosts("node1", "node2")[0]
        if munge_key:
            os.chmod(self.folder, 0o755)
            for host in self.net.hosts:
                munge.Munged(self, host, munge_key)
        sidecar = spawn(self, [*first.prefix, sys.executable, SIDECAR, str(PORT), str(USER)],
                        stdout=subprocess.PIPE, text=True)
        self.assertEqual(sidecar.stdout.readline(), "ready\n")
        first.run("nft", "-f", "-", given=MESH)
        options = list(options)
        if token:
            path = self.folder / "token"
            path.write_text("0123456789abcdef0123456789abcdef\n")
            path.chmod(0o600)
            options += ["--token-file", str(path)]
        job = self.cluster("2", conf="last_call_timeout=500", options=options)
        return job, job.start_all(2, env=NO_HOME)

    def test_a_token_decides_who_joins(self):
        job, nodes = self.begin("--store-via=proxy", token=True)
        job.round(2)
        for ended in job.finish(*nodes):
            self.assertEqual(ended.said, "")

    @unittest.skipIf(munge.missing(), munge.missing())
    def test_munge_decides_who_joins(self):
        job, nodes = self.begin("--store-via=proxy", "--token=munge", munge_key=os.urandom(128))
        job.round(2)
        for ended in job.finish(*nodes):
            self.assertEqual(ended.said, "")

    def test_without_a_token_it_is_admitted_with_one_warning(self):
        job, nodes = self.begin("--store-via=proxy", "--token=none")
        job.round(2)
        first, _ = job.finish(*nodes)
        self.assertEqual(first.err.count("admitted a connection from user "
                                         f"{USER} on this host"), 1, first)

    def test_the_store_says_what_works(self):
        _, nodes = self.begin(token=True)
        nodes[0].wait_for_text(f"it belongs to user {USER}", "use --store-via=proxy")
        for node in nodes:
            node.kill_all()

    def test_where_no_secret_can_be_had_the_line_names_both_ways(self):
        _, nodes = self.begin("--store-via=proxy")
        nodes[0].wait_for_text(f"it belongs to user {USER}", "if it forwards connections",
                               "the same --token-file on all nodes, or --token=none")
        for node in nodes:
            node.kill_all()
