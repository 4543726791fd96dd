# SPDX-License-Identifier: Apache-2.0
"""Machines with separate home directories, such as virtual machines: torchrun's command line works,
and once the job has formed, only its nodes can return."""

import os
import pathlib
import re
import shlex
import shutil
import tempfile

from harness import free_port, read
from hosts import HostsCase
from nodes import WORKER
from recording import Recorder
from test_platforms import captured

MEMORY = "/dev/shm"  # a home on a container's own layer would not be used
SECRET = "0123456789abcdef0123456789abcdef\n"
WARNING = "have no shared secret"


class FirstUse(HostsCase):
    def setUp(self):
        super().setUp()
        self.hosts("node1", "node2", "node3")
        self.homes = pathlib.Path(tempfile.mkdtemp(prefix="muster_test_", dir=MEMORY))
        self.addCleanup(shutil.rmtree, self.homes)

    def start(self, job, number, *, label=None, how=None, **variables):
        home = self.homes / str(number)
        home.mkdir(exist_ok=True)
        return job.start(number, label=label, **(how or {}),
                         env={"HOME": str(home), "XDG_CONFIG_HOME": "", **variables})

    def test_two_machines_with_a_home_each(self):
        job = self.cluster("2")
        nodes = [self.start(job, number) for number in (1, 2)]
        job.round(2)
        first, second = job.finish(*nodes)
        self.assertEqual(first.err.count(WARNING), 1, first.err)
        self.assertIn(f"These joined: {self.net.hosts[1].address}. ", first.err)
        self.assertIn("--token-file", first.err)
        self.assertEqual(second.said, "")

    def test_nodes_that_share_a_home_are_warned_of_nothing(self):
        job = self.cluster("2")
        nodes = [job.start(number, env={"HOME": str(self.homes), "XDG_CONFIG_HOME": ""})
                 for number in (1, 2)]
        job.round(2)
        for ended in job.finish(*nodes):
            self.assertEqual(ended.said, "")

    def test_who_comes_later_needs_a_secret(self):
        job = self.cluster("2:3", conf="last_call_timeout=0.1")
        nodes = [self.start(job, number) for number in (1, 2)]
        job.round(2)
        late = self.start(job, 3).end()
        self.assertEqual(late.code, 2, late.err)
        self.assertIn("this job has already formed without a shared secret", late.err)
        self.assertIn("--token-file", late.err)
        self.assertEqual(len(job.story.rounds()), 1, job.describe())
        job.finish(*nodes)

    def test_members_return_whoever_leads(self):
        job = self.cluster("3", conf="lease=1,last_call_timeout=0.1", options=["--max-restarts=0"])
        nodes = {number: self.start(job, number) for number in (1, 2, 3)}
        job.round(3)
        for number in (2, 1):
            nodes[number].kill_all()
            nodes[number] = self.start(job, number, label=f"node{number}again")
            job.round(3)
        job.finish(*nodes.values())

    def test_a_member_returns_from_a_new_address(self):
        job = self.cluster("3", conf="lease=1,last_call_timeout=0.1")
        nodes = [self.start(job, number) for number in (1, 2, 3)]
        job.round(3)
        host = self.net.hosts[2]
        host.firewall("drop")
        nodes[2].kill_all()
        host.ip(f"addr del {host.address}/24 dev eth0", "addr add 10.77.0.33/24 dev eth0")
        host.open()
        nodes[2] = self.start(job, 3)
        self.assertEqual(job.round(3).restarts, 0)
        job.finish(*nodes)

    def heard_at_endpoint(self, **variables):
        """What a program on the first host records while a job of two nodes forms."""
        job = self.cluster("2")
        recorder = Recorder(self.net.hosts[0], int(job.endpoint.rpartition(":")[2]))
        nodes = [self.start(job, number, **variables) for number in (1, 2)]
        job.round(2)
        job.finish(*nodes)
        return b"".join(map(bytes.fromhex, recorder.end()["to"]))

    def test_connections_are_encrypted(self):
        """All bytes except the greeting, which contains the id of the job."""
        contents = [pathlib.Path(WORKER).name.encode(), b"node2"]
        heard = self.heard_at_endpoint(MUSTER_TOKEN="none")
        self.assertEqual([text for text in contents if text in heard], contents)
        heard = self.heard_at_endpoint()
        self.assertIn(b"\x16\x03", heard, "a TLS handshake")
        self.assertEqual([text for text in contents if text in heard], [])

    def test_connections_of_pods_without_a_secret_are_encrypted(self):
        heard = self.heard_at_endpoint(KUBERNETES_SERVICE_HOST="10.3.0.1")
        self.assertIn(b"\x16\x03", heard, "a TLS handshake")
        self.assertNotIn(b"node2", heard)

    def in_slurm(self, nodes):
        """A two-node job in a step with this node list."""
        job = self.cluster("2")
        port = free_port()
        job.launcher_args = lambda *_, words=(), **__: [*words, "--nproc-per-node=1", WORKER]
        step = {**captured("slurm-step1-0"), "SLURM_STEP_NODELIST": nodes,
                "SLURM_STEP_RESV_PORTS": str(port), "SLURM_JOB_ID": "7"}
        by_hand = ["--nnodes=2", "--rdzv-backend=c10d", "--rdzv-id=slurm-7.0",
                   f"--rdzv-endpoint={self.net.hosts[0].address}:{port}"]
        return job, step, by_hand

    def start_with(self, job, number, words=(), **variables):
        home = self.homes / str(number)
        home.mkdir(exist_ok=True)
        return job.start(number, words=words,
                         env={"HOME": str(home), "XDG_CONFIG_HOME": "", **variables})

    def test_a_host_that_slurm_does_not_name_is_refused(self):
        job, step, by_hand = self.in_slurm("node[1-2]")
        first = self.start_with(job, 1, **step)
        first.wait_for_text("1 of 2")
        stranger = self.start_with(job, 3, by_hand).end()
        self.assertEqual(stranger.code, 2, stranger.err)
        why = "10.77.0.3 is not an address of a host in SLURM_STEP_NODELIST"
        self.assertIn(why, stranger.err)
        self.assertIn("--token-file", stranger.err)
        self.assertIn(why, first.wait_for_text("refused node at 10.77.0.3: "))
        second = self.start_with(job, 2, **{**step, "SLURM_NODEID": "1", "SLURM_PROCID": "1"})
        self.assertEqual(set(job.round(2).nodes), {"node1", "node2"})
        ended, _ = job.finish(first, second)
        self.assertIn("any program on the hosts in SLURM_STEP_NODELIST that reached", ended.err)

    def test_hosts_whose_addresses_are_unknown_limit_nobody(self):
        job, step, by_hand = self.in_slurm("node[1,9]")
        first = self.start_with(job, 1, **step)
        other = self.start_with(job, 3, by_hand)
        job.round(2)
        ended, _ = job.finish(first, other)
        self.assertIn("any host that reached", ended.err)
        self.assertIn("cannot resolve the hosts in SLURM_STEP_NODELIST: ", ended.err)

    def test_an_administrator_forbids_it(self):
        job = self.cluster("2")
        nodes = [self.start(job, number, MUSTER_TOKEN="require") for number in (1, 2)]
        for node in nodes:
            ended = node.end()
            self.assertEqual(ended.code, 2, ended.err)
            self.assertIn("the tokens differ", ended.err)

    def test_an_administrator_forbids_it_in_the_file_of_the_site(self):
        for host in self.net.hosts[:2]:
            host.own_etc("muster/config.toml", 'token = "require"\n')
        job = self.cluster("2")
        nodes = [self.start(job, number) for number in (1, 2)]
        for node in nodes:
            ended = node.end()
            self.assertEqual(ended.code, 2, ended.err)
            self.assertIn("the tokens differ", ended.err)

    def test_a_token_file_admits_only_nodes_with_its_secret(self):
        """Although no two hosts share a home, and although the job has not formed."""
        for secret, why in ((None, "this job needs a token"), (SECRET[::-1], "the tokens differ")):
            with self.subTest(why):
                job = self.cluster("2")
                first = self.start_with_token(job, 1, SECRET)
                first.wait_for_text("1 of 2")
                stranger = self.start_with_token(job, 3, secret)
                for ended in job.ends(stranger, first, code=2):
                    self.assertIn(why, ended.err)
                self.assertEqual(job.story.events(), [])
        job = self.cluster("2")
        nodes = [self.start_with_token(job, number, SECRET) for number in (1, 2)]
        job.round(2)
        for ended in job.finish(*nodes):
            self.assertEqual(ended.said, "")

    def start_with_token(self, job, number, secret):
        if secret is None:
            return self.start(job, number)
        path = self.homes / f"token{number}"
        path.write_text(secret.strip() + "\n")
        path.chmod(0o600)
        return self.start(job, number, how={"options": [f"--token-file={path}"]})

    def test_hosts_admits_only_the_agents_that_it_has_started(self):
        """Each of them receives the job's token over ssh, here over nsenter."""
        rsh = self.folder / "rsh"
        rsh.write_text("#!/bin/sh\nwhile test $# -gt 2; do shift; done\n"
                       "test $1 = node1 && exec sh -c \"$2\"\n"
                       f"exec {shlex.join(self.net.hosts[1].prefix)} sh -c \"$2\"\n")
        rsh.chmod(0o755)
        job = self.cluster("2")
        by_hosts = ["--hosts=node1,node2", f"--rsh={rsh}", f"--rdzv-id={job.name}", "-x",
                    "NODE_DIR", "-x", "NODE_LABEL", "--nproc-per-node=1", WORKER]
        by_hand, job.launcher_args = job.launcher_args, lambda *_, **__: by_hosts
        first = self.start(job, 1)
        job.round(2)
        lines = [read(f"/proc/{pid}/cmdline") for pid in first.pids()]
        leader = next(filter(None, (re.search("--rdzv-endpoint=([^\0]+)", line)
                                    for line in lines)))[1]
        job.launcher_args = by_hand
        stranger = self.start(job, 3, how={"endpoint": leader}).end()
        self.assertEqual(stranger.code, 2, stranger.err)
        self.assertIn("this job needs a token", stranger.err)
        ended, = job.finish(first)
        self.assertNotIn(WARNING, ended.err)

    def test_one_that_demands_a_secret_trusts_nobody(self):
        for strict in (1, 2):
            job = self.cluster("2")
            nodes = [self.start(job, number, label=f"{number}of{strict}",
                                **({"MUSTER_TOKEN": "require"} if number == strict else {}))
                     for number in (1, 2)]
            for node in nodes:
                ended = node.end()
                self.assertEqual(ended.code, 2, ended.err)
                self.assertIn("token", ended.err)
