# SPDX-License-Identifier: Apache-2.0
"""The ranks in a round, and the environment of every worker on every node (see the README of
lib/plan)."""

import ipaddress

from nodes import NEVER, NodesCase


class Order(NodesCase):
    def test_by_address_where_names_are_the_same_in_natural_order(self):
        job = self.cluster("3", conf=NEVER)
        for number in (10, 9, 2):
            job.start(number)
        self.assertEqual(job.round(3).nodes, ["n2", "n9", "n10"])
        job.finish()

    def test_by_node_rank_for_c10d_too(self):
        job = self.cluster("3", conf=NEVER)
        for number in (1, 2, 3):
            job.start(number, options=["--node-rank", 3 - number])
        self.assertEqual(job.round(3).nodes, ["n3", "n2", "n1"])
        job.finish()

    def test_a_node_without_a_rank_gets_what_is_left(self):
        job = self.cluster("3", conf=NEVER)
        job.start(1, options=["--node-rank", 1])
        job.start(2)
        job.start(3, options=["--node-rank", 0])
        self.assertEqual(job.round(3).nodes, ["n3", "n1", "n2"])
        job.finish()

    def test_a_file_that_names_nobody_changes_nothing(self):
        # Ordering by name needs hosts with different names: see tests/hosts.
        path = self.folder / "order"
        path.write_text("nodeA # the first\n\nnodeB\n")
        job = self.cluster("2", conf=NEVER, options=["--rank-order", f"file:{path}"])
        job.start_all(2)
        self.assertEqual(job.round(2).nodes, ["n1", "n2"])
        job.finish()

    def test_a_node_that_comes_back_gets_its_old_place(self):
        job, nodes, _ = self.form("2:3", 3, conf=NEVER)
        nodes[1].kill_all()
        job.round(2, nodes=["n1", "n3"])
        job.start(2)
        self.assertEqual(job.round(3).nodes, ["n1", "n2~2", "n3"])
        job.finish(nodes[0], nodes[2], job.nodes[-1])

    def test_slots_of_one_machine_keep_their_order(self):
        # Only their places in the previous round distinguish these three.
        job, _, one = self.form("3", 3, conf=NEVER, addresses=None, options=["--max-restarts", 2])
        for code in (1, 2):
            job.order(one, 1, f"exit {code}")
            again = job.round(3)
            self.assertEqual(again.nodes, one.nodes)
            one = again
        job.finish()


class Variables(NodesCase):
    """From the contract's table of variables, with three nodes of 1, 2 and 3 workers in two
    roles."""

    def setUp(self):
        super().setUp()
        self.job = self.cluster("3", conf=NEVER, options=["--max-restarts", 3])
        for number, role in ((1, "trainer"), (2, "ps"), (3, "trainer")):
            self.job.start(number, nproc=number, options=["--role", role])
        self.round = self.job.round(6)

    def values(self, name):
        return [env.get(name) for env in self.round.env.values()]

    def test_ranks(self):
        self.assertEqual(list(self.round.env), list(range(6)))
        self.assertEqual(self.values("WORLD_SIZE"), ["6"] * 6)
        self.assertEqual(self.values("LOCAL_RANK"), ["0", "0", "1", "0", "1", "2"])
        self.assertEqual(self.values("LOCAL_WORLD_SIZE"), ["1", "2", "2", "3", "3", "3"])
        self.assertEqual(self.values("GROUP_RANK"), ["0", "1", "1", "2", "2", "2"])
        self.assertEqual(self.values("GROUP_WORLD_SIZE"), ["3"] * 6)

    def test_roles(self):
        self.assertEqual(self.values("ROLE_NAME"), ["trainer", "ps", "ps"] + ["trainer"] * 3)
        self.assertEqual(self.values("ROLE_RANK"), ["0", "0", "1", "1", "2", "3"])
        self.assertEqual(self.values("ROLE_WORLD_SIZE"), ["4", "2", "2", "4", "4", "4"])

    def test_the_store_of_the_round(self):
        address, = set(self.values("MASTER_ADDR"))
        self.assertEqual(str(ipaddress.ip_address(address)), "127.0.0.1")
        port, = set(self.values("MASTER_PORT"))
        self.assertNotEqual(f"{address}:{port}", self.job.endpoint)
        self.assertEqual(set(self.values("TORCHELASTIC_USE_AGENT_STORE")), {"True"})

    def test_the_job(self):
        self.assertEqual(set(self.values("TORCHELASTIC_RUN_ID")), {self.job.name})
        self.assertEqual(set(self.values("TORCHELASTIC_MAX_RESTARTS")), {"3"})
        self.assertEqual(set(self.values("TORCHELASTIC_RESTART_COUNT")), {"0"})
        self.assertEqual(set(self.values("TORCH_NCCL_ASYNC_ERROR_HANDLING")), {"1"})
        self.assertEqual(set(self.values("TORCHELASTIC_SIGNALS_TO_HANDLE")),
                         {"SIGTERM,SIGINT,SIGHUP,SIGQUIT"})
        self.assertEqual(len(set(self.values("TORCHELASTIC_ERROR_FILE"))), 6)

    def test_after_a_failure_on_one_node_all_ranks_count_the_same_restarts(self):
        port, = set(self.values("MASTER_PORT"))
        for turn in (1, 2):
            # Different exit codes, so that the second one does not look like the first again.
            self.job.order(self.round, 4 - turn, f"exit {turn}")
            self.round = self.job.round(6)
            self.assertEqual(self.values("TORCHELASTIC_RESTART_COUNT"), [str(turn)] * 6)
            self.assertEqual(self.values("GROUP_RANK"), ["0", "1", "1", "2", "2", "2"])
            self.assertNotEqual(set(self.values("MASTER_PORT")), {port}, "the store is a new one")
        self.job.finish()

    def tearDown(self):
        self.job.finish()


class Virtual(NodesCase):
    def test_virtual_local_ranks_on_every_node(self):
        job, _, one = self.form("2", 2, nproc=2, env={"CUDA_VISIBLE_DEVICES": "4,5"}, conf=NEVER,
                                options=["--virtual-local-rank"])
        self.assertEqual([env["LOCAL_RANK"] for env in one.env.values()], ["0"] * 4)
        job.finish()
