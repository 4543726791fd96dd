# SPDX-License-Identifier: Apache-2.0
"""Nodes find each other: immediately at MAX, after the last call at MIN, in any order."""

import os
import socket
import time
import unittest

from harness import eventually, free_port
from nodes import NEVER, Cluster, NodesCase

QUICK = "last_call_timeout=0.5"


class Forming(NodesCase):
    def test_complete_at_max_at_once(self):
        job, nodes, one = self.form("2:3", 3, conf=NEVER)
        self.assertEqual(one.nodes, ["n1", "n2", "n3"])
        for ended in job.finish(*nodes):
            self.assertEqual(ended.said, "", "a success is not talked about")

    def test_at_min_after_the_last_call_and_not_before(self):
        job = self.cluster("2:3", conf="last_call_timeout=1.5")
        job.start(1)
        begun = time.monotonic_ns()
        job.start(2)
        one = job.round(2)
        waited = (min(worker["at"] for worker in one.workers.values()) - begun) / 1e9
        self.assertGreater(waited, 1.5)  # the last call begins when both have met
        job.finish()

    def test_below_min_nothing_starts(self):
        # The second one may start seconds after the first one, whose time includes that.
        job = self.cluster("3", conf="join_timeout=8")
        nodes = job.start_all(2)
        ended = job.ends(*nodes, code=69)
        self.assertEqual(job.story.events(), [])
        for one in ended:
            self.assertIn("no round", one.err)
            self.assertIn("2 of 3 nodes are here", one.err)

    def test_several_agents_on_one_machine_elect_whoever_binds_first(self):
        # Nothing distinguishes them, not even an address.
        job = self.cluster("4", addresses=None, endpoint=f"localhost:{free_port()}")
        nodes = [job.start(number) for number in (1, 2, 3, 4)]
        one = job.round(4)
        self.assertEqual({env["GROUP_WORLD_SIZE"] for env in one.env.values()}, {"4"})
        self.assertEqual(sorted(one.nodes), ["n1", "n2", "n3", "n4"])
        job.finish(*nodes)

    def test_no_address_is_given_and_the_endpoint_is_another_of_this_machine(self):
        job = self.cluster("3", addresses=None, endpoint=f"127.0.0.7:{free_port('127.0.0.7')}")
        nodes = job.start_all(3)
        address, = {env["MASTER_ADDR"] for env in job.round(3).env.values()}
        # A client of 127.0.0.7 has the address 127.0.0.1 there, and may have the first rank.
        self.assertIn(address, ("127.0.0.1", "127.0.0.7"))
        job.finish(*nodes)

    def test_the_founder_comes_late(self):
        # is_host=false: otherwise these two would found the job, because the address is theirs too.
        job = self.cluster("3", conf=NEVER)
        early = [job.start(number, conf="is_host=false," + NEVER) for number in (2, 3)]
        for node in early:
            node.wait_for_text("Connection refused")
        late = job.start(1)
        one = job.round(3)
        self.assertEqual(one.nodes, ["n1", "n2", "n3"])
        job.finish(late, *early)

    def test_the_port_of_the_endpoint_is_taken_for_a_moment(self):
        for name in ("127.0.0.1", "localhost"):
            with self.subTest(name), socket.socket() as other:
                other.bind(("127.0.0.1", 0))
                other.listen()
                job = self.cluster("2", conf=NEVER, addresses=None,
                                   endpoint=f"{name}:{other.getsockname()[1]}")
                nodes = [job.start(number) for number in (1, 2)]
                for _ in nodes:
                    other.accept()[0].close()
                other.close()
                job.round(2)
                job.finish(*nodes)

    def test_whoever_is_told_to_host_does(self):
        job = self.cluster("2", conf=NEVER)
        client = job.start(1, conf="is_host=0," + NEVER)
        client.wait_for_text("Connection refused")
        host = job.start(2, conf="is_host=1," + NEVER)
        job.round(2)
        job.finish(client, host)

    def test_a_job_of_one_to_two_with_quoted_settings(self):
        # From the contract, launch_elastic: PyTorch's own test passes the quotes literally.
        job = self.cluster("1:2", conf="'join_timeout=5,last_call_timeout=1,timeout=5',"
                           "last_call_timeout=0.5")
        node = job.start(1, nproc=4)
        one = job.round(4)
        self.assertEqual(one.env[3]["GROUP_WORLD_SIZE"], "1")
        job.finish(node)

    def test_two_agents_of_one_machine_with_four_workers_each(self):
        job, nodes, one = self.form("1:2", 2, nproc=4, conf=NEVER, addresses=None)
        self.assertEqual(list(one.env), list(range(8)))
        job.finish(*nodes)

    def test_several_endpoints_and_any_of_them_will_do(self):
        ports = [free_port() for _ in range(3)]
        endpoints = ",".join(f"127.0.0.{i + 1}:{port}" for i, port in enumerate(ports))
        job, nodes, _ = self.form("2:3", 3, conf=QUICK, endpoint=endpoints)
        job.finish(*nodes)

    def test_ten_jobs_at_once_do_not_disturb_each_other(self):
        jobs = [self.cluster("2", conf=NEVER) for _ in range(10)]
        for job in jobs:
            job.start_all(2)
        stores = set()
        for job in jobs:
            one = job.round(2)
            store, = {(env["MASTER_ADDR"], env["MASTER_PORT"]) for env in one.env.values()}
            self.assertEqual({env["TORCHELASTIC_RUN_ID"] for env in one.env.values()}, {job.name})
            stores.add(store)
        self.assertEqual(len(stores), 10)
        for job in jobs:
            job.finish()

    def test_a_python_script_under_each_node(self):
        script = self.python("import os, pathlib\n"
                             f"pathlib.Path({str(self.folder)!r}, os.environ['RANK']).touch()\n")
        job = self.cluster("2", conf=NEVER)
        nodes = job.start_all(2, nproc=2, program=script)
        job.ends(*nodes)
        self.assertEqual([rank for rank in range(9) if (self.folder / str(rank)).exists()],
                         [0, 1, 2, 3])


class Addresses(NodesCase):
    def run_on(self, host, addresses=None, expect=None):
        job, nodes, one = self.form("2", 2, conf=NEVER, endpoint=f"{host}:{free_port()}",
                                    addresses=addresses)
        self.assertEqual({env["MASTER_ADDR"] for env in one.env.values()}, expect, job.describe())
        job.finish(*nodes)

    def test_localhost(self):
        job = self.cluster("2", conf=NEVER, endpoint=f"localhost:{free_port()}", addresses=None)
        nodes = job.start_all(2)
        address, = {env["MASTER_ADDR"] for env in job.round(2).env.values()}
        self.assertIn(address, ("127.0.0.1", "::1"))
        job.finish(*nodes)

    @unittest.skipUnless(os.path.exists("/proc/net/if_inet6"), "this machine has no IPv6")
    def test_ipv6(self):
        self.run_on("[::1]", expect={"::1"})

    def test_ipv4(self):
        self.run_on("127.0.0.1", expect={"127.0.0.1"})

    def test_the_local_address_is_what_workers_dial(self):
        self.run_on("127.0.0.1", addresses=lambda n: f"127.0.0.{n + 4}", expect={"127.0.0.5"})

    def test_the_address_of_an_interface(self):
        job = self.cluster("2", conf=NEVER, addresses=None)
        nodes = job.start_all(2, options=["--iface", "lo"])
        address, = {env["MASTER_ADDR"] for env in job.round(2).env.values()}
        self.assertEqual(address, "127.0.0.1")
        job.finish(*nodes)


class Harness(NodesCase):
    def test_overlaps_are_seen(self):
        # Without this, the other tests would pass even if the check detected nothing.
        first, second = (Cluster(self, "1:2", conf="last_call_timeout=0.1") for _ in range(2))
        self.clusters.clear()  # whose nodes must not overlap
        first.start(1)
        self.addCleanup(first.nodes[0].__exit__)
        first.round(1)
        self.assertEqual(first.story.overlaps(), [])
        second.folder, second.story = first.folder, first.story
        second.start(1, label="x1")
        self.addCleanup(second.nodes[0].__exit__)
        second.round(1)
        # Both are alive from here on. On a busy machine n1 may not have run since x1 was started.
        # Its last beat is then older than x1's start, so there is no overlap until its next beat.
        eventually(first.story.overlaps, lambda: f"an overlap is seen: {first.story.lives()}")
        overlap, = first.story.overlaps()
        self.assertRegex(overlap, r"^round \S+ on n1 was alive until \d+, round \S+ on x1 began")
