# SPDX-License-Identifier: Apache-2.0
"""Nodes that authenticate with MUNGE: what it enables, what it rejects, and what happens if it
differs between nodes. The daemons are real."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import munge
from harness import eventually, free_port, spawn
from hosts import HostsCase

ATTACKER = pathlib.Path(__file__).resolve().parent / "attacker"
MEMORY = "/dev/shm"  # a home on a container's own layer would not be used
NEVER = "last_call_timeout=500"
NOBODY = 65534
GREETINGS = 3  # from the thief


@unittest.skipIf(munge.missing(), munge.missing())
class ByMunge(HostsCase):
    def cluster_of(self, *names, keys=None, nnodes=None, **how):
        """Hosts with these names, each with munged and its own home."""
        self.hosts(*names)
        os.chmod(self.folder, 0o755)
        homes = pathlib.Path(tempfile.mkdtemp(prefix="muster_test_", dir=MEMORY))
        self.addCleanup(shutil.rmtree, homes)
        homes.chmod(0o755)
        self.homes = []
        one = os.urandom(128)
        self.daemons = []
        for number, host in enumerate(self.net.hosts):
            key = keys[number] if keys else one
            self.daemons.append(munge.Munged(self, host, key) if key else None)
            self.homes.append(homes / host.name)
            self.homes[-1].mkdir()
        how.setdefault("conf", NEVER)
        return self.cluster(nnodes or str(len(names)), **how)

    def home(self, number):
        return {"env": {"HOME": str(self.homes[number - 1]), "XDG_CONFIG_HOME": ""}}

    def start(self, job, number, *options, **how):
        return job.start(number, options=options, **{**self.home(number), **how})

    def files_of(self, number):
        return [path for path in self.homes[number - 1].rglob("*") if path.is_file()]

    # -- accepted nodes -----------------------------------------------------------------------

    def test_nodes_without_a_shared_home_need_nothing(self):
        job = self.cluster_of("node1", "node2", "node3")
        nodes = [self.start(job, number) for number in (1, 2, 3)]
        self.assertEqual(sorted(job.round(3).nodes), ["node1", "node2", "node3"])
        # Their tokens differ, so only MUNGE can have connected them.
        self.assertEqual(len({self.files_of(number)[0].read_text() for number in (1, 2, 3)}), 3)
        for ended in job.finish(*nodes):
            self.assertEqual(ended.said, "")

    def test_demanded_it_touches_no_home(self):
        job = self.cluster_of("node1", "node2", options=["--token=munge"])
        nodes = [self.start(job, number) for number in (1, 2)]
        job.round(2)
        for ended in job.finish(*nodes):
            self.assertEqual(ended.said, "")
        self.assertEqual(self.files_of(1) + self.files_of(2), [])

    def test_the_static_back_end(self):
        job = self.cluster_of("node1", "node2", options=["--token=munge"], backend="static",
                              conf="timeout=500")
        nodes = [self.start(job, number, f"--node-rank={number - 1}") for number in (1, 2)]
        job.round(2)
        for ended in job.finish(*nodes):
            self.assertEqual(ended.said, "")

    def test_whoever_leads_next_has_a_key_of_its_own(self):
        job = self.cluster_of("node1", "node2", "node3", nnodes="2:3",
                              conf="last_call_timeout=500,lease=1",
                              options=["--token=munge", "--max-restarts=2"])
        first = self.start(job, 1)
        self.start(job, 2)
        self.start(job, 3)
        job.round(3)
        first.kill_all()
        self.assertEqual(sorted(job.round(2).nodes), ["node2", "node3"])
        self.start(job, 1)
        job.round(3)
        job.finish()

    def test_the_workers_store_by_proxy(self):
        job = self.cluster_of("node1", "node2", options=["--token=munge", "--store-via=proxy"])
        nodes = [self.start(job, number) for number in (1, 2)]
        job.round(2)
        job.finish(*nodes)

    # -- refused nodes ------------------------------------------------------------------------

    def refuse(self, job, wrong, sentence):
        """Neither of two nodes waits for the other one, and both print what to do."""
        first = self.start(job, 1, "--token=munge")
        first.wait_for_text("1 of 2")
        ended, = job.ends(wrong(), code=2)
        self.assertIn(sentence, ended.err)
        self.assertIn("do all nodes have the same munge.key", ended.err)
        self.assertEqual(len(ended.said.splitlines()), 1, ended)
        waited, = job.ends(first, code=2)
        self.assertIn("refused node at 10.77.0.2: it could not use our MUNGE credential",
                      waited.err)

    def test_another_user(self):
        job = self.cluster_of("node1", "node2")
        as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]

        def wrong():
            return self.start(job, 2, "--token=munge", popen={
                "prefix": [*self.net.hosts[1].prefix, *as_nobody]})
        self.refuse(job, wrong, "Unauthorized credential")

    def test_another_cluster(self):
        keys = [os.urandom(128), os.urandom(128)]
        job = self.cluster_of("node1", "node2", keys=keys)
        self.refuse(job, lambda: self.start(job, 2, "--token=munge"), "Invalid credential")

    def test_a_credential_that_was_heard_leads_nobody(self):
        """A stranger has a credential from the true leader, and shows it to its clients."""
        job = self.cluster_of("node1", "node2", "thief", nnodes="2", options=["--token=munge"])
        first = self.start(job, 1)
        eventually(job.is_hosted, lambda: f"the first node hosts\n{first.err()}")
        address, port = self.net.hosts[2].address, free_port()
        thief = spawn(self, [*self.net.hosts[2].prefix, sys.executable, ATTACKER / "thief.py",
                             address, str(port), job.name, *job.endpoint.rsplit(":", 1)],
                      stdout=subprocess.PIPE, text=True)
        self.assertEqual(thief.stdout.readline(), "ready\n")
        misled = self.start(job, 2, endpoint=f"{address}:{port}")
        said = [thief.stdout.readline().strip() for _ in range(2 * GREETINGS)]
        self.assertEqual(len(set(said)), GREETINGS, said)
        self.assertIsNone(misled.process.poll(), misled.err())
        self.assertEqual(job.story.events(), [])
        misled.kill_all()
        # It remains valid for those for whom it was made.
        self.start(job, 2)
        job.round(2)
        job.finish()

    def test_chosen_by_muster_it_admits_no_host_without_it(self):
        """Homes are separate, but the first node has MUNGE, so it does not trust on first use."""
        key = os.urandom(128)
        job = self.cluster_of("node1", "node2", "stranger", nnodes="2", keys=(key, key, None))
        first = self.start(job, 1)
        first.wait_for_text("1 of 2")
        for ended in job.ends(self.start(job, 3), first, code=2):
            self.assertIn("token", ended.err)
        self.assertEqual(job.story.events(), [])

    # -- different settings on the nodes ------------------------------------------------------

    def share_home(self):
        self.homes = [self.homes[0] for _ in self.homes]

    def meet_by_token(self, job):
        self.share_home()
        first = self.start(job, 1)
        eventually(job.is_hosted, lambda: f"the first node hosts\n{first.err()}")
        nodes = [first, self.start(job, 2)]
        job.round(2)
        for ended in job.finish(*nodes):
            self.assertEqual(ended.said, "")

    def test_a_first_node_without_it_and_a_shared_home(self):
        self.meet_by_token(self.cluster_of("node1", "node2", keys=(None, os.urandom(128))))

    def test_a_second_node_without_it_and_a_shared_home(self):
        self.meet_by_token(self.cluster_of("node1", "node2", keys=(os.urandom(128), None)))

    def test_another_cluster_and_a_shared_home(self):
        self.meet_by_token(self.cluster_of("node1", "node2", keys=[os.urandom(128),
                                                                   os.urandom(128)]))

    def test_a_daemon_that_has_died_and_left_its_socket(self):
        job = self.cluster_of("node1", "node2")
        self.daemons[0].kill()
        self.meet_by_token(job)

    def test_a_daemon_that_dies_later(self):
        job = self.cluster_of("node1", "node2", nnodes="1:2", conf="last_call_timeout=500,lease=1",
                              options=["--max-restarts=2"])
        self.share_home()
        self.start(job, 1)
        second = self.start(job, 2)
        job.round(2)
        second.kill_all()
        job.round(1)
        self.daemons[1].kill()
        self.start(job, 2)
        job.round(2)
        job.finish()

    def test_demanded_and_not_there(self):
        job = self.cluster_of("node1", "node2", keys=(None, None))
        ended, = job.ends(self.start(job, 1, "--token=munge"), code=69)
        self.assertIn("--token=munge: MUNGE: ", ended.err)
        self.assertIn("start munged, or pass the same --token-file on all nodes", ended.err)
