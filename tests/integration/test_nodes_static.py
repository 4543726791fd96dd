# SPDX-License-Identifier: Apache-2.0
"""The static backend: --node-rank sets the places, and workers connect to the endpoint."""

import socket

from harness import free_port
from nodes import NodesCase, last_block


class Static(NodesCase):
    def static(self, nnodes, endpoint=None, **how):
        port = free_port()
        job = self.cluster(nnodes, backend="static", addresses=None,
                           endpoint=endpoint or f"127.0.0.1:{port}", **how)
        return job

    def start(self, job, count, **how):
        """The last one first, because the order must not matter."""
        return [job.start(rank, options=["--node-rank", rank, *how.get("options", [])],
                          nproc=how.get("nproc", 1)) for rank in reversed(range(count))]

    def assert_place(self, one, endpoint):
        places = {(env["MASTER_ADDR"], env["MASTER_PORT"]) for env in one.env.values()}
        self.assertEqual(places, {tuple(endpoint.rsplit(":", 1))})

    def test_ranks_and_the_workers_store_are_where_the_command_line_says(self):
        job = self.static("3")
        self.start(job, 3, nproc=2)
        one = job.round(6)
        self.assertEqual(one.nodes, ["n0", "n1", "n2"])
        self.assert_place(one, job.endpoint)
        self.assertEqual({env["TORCHELASTIC_USE_AGENT_STORE"] for env in one.env.values()},
                         {"True"})
        job.finish()

    def test_master_addr_and_master_port(self):
        job = self.static("2", options=["--master-addr", "127.0.0.1"])
        port = job.endpoint.rsplit(":", 1)[1]
        nodes = []
        for rank in (0, 1):
            args = job.launcher_args(rank, options=["--node-rank", rank, "--master-port", port])
            at = args.index("--rdzv-endpoint")
            del args[at:at + 2]
            job.launcher_args = lambda *_, args=args, **__: args
            nodes.append(job.start(rank))
            del job.launcher_args
        self.assert_place(job.round(2), job.endpoint)
        job.finish()

    def test_a_name_stays_as_it_was_typed(self):
        job = self.static("2", endpoint=f"localhost:{free_port()}")
        self.start(job, 2)
        self.assert_place(job.round(2), job.endpoint)
        job.finish()

    def test_the_world_is_the_maximum_and_nothing_less(self):
        job = self.static("1:2", conf="timeout=3")
        node, = self.start(job, 1)
        ended, = job.ends(node, code=69)
        self.assertIn("1 of 2 nodes is here", ended.err)
        self.assertEqual(job.story.events(), [])

    def test_one_id_twice_at_the_same_time_with_different_ports(self):
        jobs = [self.static("2", id="same") for _ in range(2)]
        for job in jobs:
            self.start(job, 2)
        for job in jobs:
            self.assert_place(job.round(2), job.endpoint)
        for job in jobs:
            job.finish()

    def test_one_port_twice_one_after_the_other(self):
        first = self.static("2", id="same")
        self.start(first, 2)
        first.round(2)
        first.finish()
        second = self.static("2", id="same", endpoint=first.endpoint)
        self.start(second, 2)
        self.assert_place(second.round(2), first.endpoint)
        second.finish()

    def test_a_restart_on_one_node_restarts_all(self):
        job = self.static("3", options=["--max-restarts", "1"])
        self.start(job, 3)
        one = job.round(3)
        job.order(one, 2, "exit 5")
        again = job.round(3)
        self.assertEqual((again.restarts, again.nodes), (1, ["n0", "n1", "n2"]))
        self.assert_place(again, job.endpoint)
        job.finish()

    def test_a_node_that_dies_is_waited_for_and_takes_its_place_again(self):
        job = self.static("2", conf="lease=60")
        last, _ = self.start(job, 2)
        job.round(2)
        last.kill_agent()
        eventually_again = job.start(1, options=["--node-rank", 1])
        one = job.round(2)
        self.assertEqual(one.nodes, ["n0", eventually_again.label])
        job.ends(last, code=137)
        job.finish()

    def test_a_rank_that_is_taken_is_refused(self):
        job = self.static("3")
        host, other = (job.start(rank, options=["--node-rank", rank]) for rank in (0, 1))
        other.wait_for_text("2 of 3")
        double = job.start(1, options=["--node-rank", 1])
        ended, = job.ends(double, code=2)
        self.assertIn("--node-rank=1 is taken", ended.err)
        host.wait_for_text("refused", "--node-rank=1 is taken")
        job.start(2, options=["--node-rank", 2])
        job.round(3)
        job.finish()

    def test_a_port_that_is_taken_by_a_stranger(self):
        with socket.socket() as stranger:
            stranger.bind(("127.0.0.1", 0))
            stranger.listen()
            job = self.static("2", endpoint=f"127.0.0.1:{stranger.getsockname()[1]}",
                              conf="timeout=20")
            node, = self.start(job, 1)
            ended, = job.ends(node, code=70)
        self.assertIn(job.endpoint.rpartition(":")[2], ended.err)
        self.assertIn("in use; another job, or another launcher with --node-rank=0, is listening",
                      ended.err)
        self.assertEqual(len(last_block(ended)), 1, ended)
