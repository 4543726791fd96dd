# SPDX-License-Identifier: Apache-2.0
"""MASTER_ADDR by name, in separate mount and network namespaces: which sockets listen where, and
what happens while name servers are silent. `unittest` runs this file outside; the file runs itself
again inside the namespaces."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import unittest

from harness import JobCase

INSIDE = "MUSTER_NAMES_TEST_INSIDE"


def enter_namespaces():
    """Runs this file again inside the namespaces and adopts its result."""
    args = ["unshare", "--net", "--mount"]
    if os.geteuid() != 0:
        args += ["--user", "--map-root-user"]
    args += [sys.executable, "-W", "error::ResourceWarning", "-m", "unittest", "-v", "test_names"]
    return subprocess.run(args, env={**os.environ, INSIDE: "1"}, check=False).returncode


@unittest.skipIf(os.environ.get(INSIDE), "already inside")
class Outside(unittest.TestCase):
    def test_names_in_namespaces(self):
        self.assertEqual(enter_namespaces(), 0, "see the tests inside, above")


@unittest.skipUnless(os.environ.get(INSIDE), "run inside namespaces by the test above")
class Names(JobCase):
    @classmethod
    def setUpClass(cls):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)

    def set_etc(self, **files):
        """Writes /etc/NAME in this mount namespace for this test. _ in a name represents a dot."""
        for name, text in files.items():
            own = self.folder / name
            own.write_text(text)
            target = pathlib.Path("/etc", name.replace("_", ".")).resolve()
            subprocess.run(["mount", "--bind", own, target], check=True)
            self.addCleanup(subprocess.run, ["umount", target], check=True)

    def test_the_store_listens_on_the_address_of_the_name_only(self):
        self.set_etc(hosts="127.0.0.7 train-host\n", resolv_conf="")
        ended = self.run_job("--master-addr=train-host", "--master-port=23456", "sh", "-c",
                             "echo $MASTER_ADDR:$MASTER_PORT; cat /proc/net/tcp /proc/net/tcp6")
        self.assertEqual(ended.code, 0, str(ended))
        lines = ended.out.splitlines()
        self.assertEqual(lines[0], "train-host:23456")
        listening = [row.split()[1] for row in lines[1:] if row.split()[3] == "0A"]
        self.assertEqual(listening, [f"0700007F:{23456:04X}"])

    def test_an_unknown_name_is_one_line_and_69(self):
        self.set_etc(hosts="", resolv_conf="nameserver 127.0.0.1\n")
        ended = self.run_job("--master-addr=nowhere.example", "--master-port=0", "true")
        self.assertEqual(ended.code, 69, str(ended))
        self.assertIn("nowhere.example", ended.err)
        self.assertEqual(len(ended.err.splitlines()), 1, str(ended))

    def test_a_signal_is_handled_while_name_servers_are_silent(self):
        self.set_etc(hosts="", resolv_conf="nameserver 127.0.0.1\n")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mute:
            mute.bind(("127.0.0.1", 53))
            job = self.job("--master-addr=nowhere.example", "--master-port=0", "true")
            mute.settimeout(60)
            mute.recv(1500)  # the launcher queries it, and would wait for long
            job.kill(signal.SIGTERM)
            ended = job.end()
        self.assertEqual(ended.code, 128 + signal.SIGTERM, str(ended))
        self.assert_nothing_left(job)
