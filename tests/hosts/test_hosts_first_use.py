# SPDX-License-Identifier: Apache-2.0
"""Machines with separate home directories, such as virtual machines: torchrun's command line works,
and once the job has formed, only its nodes can return."""

import pathlib
import shutil
import tempfile

from harness import free_port
from hosts import HostsCase
from nodes import WORKER
from test_platforms import captured

MEMORY = "/dev/shm"  # a home on a container's own layer would not be used
WARNING = "have no shared secret"


class FirstUse(HostsCase):
    def setUp(self):
        super().setUp()
        self.hosts("node1", "node2", "node3")
        self.homes = pathlib.Path(tempfile.mkdtemp(prefix="muster_test_", dir=MEMORY))
        self.addCleanup(shutil.rmtree, self.homes)

    def start(self, job, number, label=None, **variables):
        home = self.homes / str(number)
        home.mkdir(exist_ok=True)
        return job.start(number, label=label,
                         env={"HOME": str(home), "XDG_CONFIG_HOME": "", **variables})

    def test_two_machines_with_a_home_each(self):
        job = self.cluster("2")
        nodes = [self.start(job, number) for number in (1, 2)]
        job.round(2)
        first, second = job.finish(*nodes)
        self.assertEqual(first.err.count(WARNING), 1, first.err)
        self.assertIn(f"These joined: {self.net.hosts[1].address}. ", first.err)
        self.assertIn("--token-file", first.err)
        self.assertEqual(second.err, "")

    def test_nodes_that_share_a_home_are_warned_of_nothing(self):
        job = self.cluster("2")
        nodes = [job.start(number, env={"HOME": str(self.homes), "XDG_CONFIG_HOME": ""})
                 for number in (1, 2)]
        job.round(2)
        for ended in job.finish(*nodes):
            self.assertEqual(ended.err, "")

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
