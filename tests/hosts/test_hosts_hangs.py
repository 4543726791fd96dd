# SPDX-License-Identifier: Apache-2.0
"""Programs that hang (tests/hangs/kinds.py) with ranks on two hosts: each host has separate flight
recorders, so only the reports of both nodes show which rank waits for which."""
import json
import os
import pathlib

import kinds
from hosts import HostsCase

KINDS = pathlib.Path(kinds.__file__)
HUNG = 124


class Hangs(HostsCase):
    def verdict_on(self, name):
        """Rank 0 is on node1, ranks 1 and 2 are on node2."""
        self.hosts("node1", "node2")
        cluster = self.cluster(2, options=["--hang-timeout=1", "--on-hang=stop", "--tee=3",
                                           "--shutdown-timeout=1"])
        scratch = {**os.environ, "SCRATCH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        logs = [self.folder / f"logs{number}" for number in (1, 2)]
        for number, ranks in ((1, 1), (2, 2)):
            cluster.start(number, nproc=ranks, program=[KINDS, name], env=scratch,
                          options=["--node-rank", number - 1, "--log-dir", logs[number - 1]])
        cluster.ends(code=HUNG)
        verdicts = [json.loads(path.read_text()) for folder in logs
                    for path in folder.glob("*/hang/*/verdict.json")]
        self.assertEqual(len(verdicts), 2, cluster.describe())
        self.assertEqual(verdicts[0], verdicts[1])
        for node in cluster.nodes:
            self.assertIn("| hang: rank 1 on 'node2': ", node.err())
        kind = kinds.KINDS[name]
        self.assertIn(verdicts[0]["cause"], kind.causes, cluster.describe())
        self.assertEqual((verdicts[0]["ranks"], verdicts[0]["nodes"]), ([1], ["node2"]))
        return verdicts[0]

    def position_of(self, verdict, rank):
        group, = [group for group in verdict["groups"] if rank in group["ranks"]]
        return group["position"], group["waits_for"]

    def test_a_rank_that_sleeps_is_behind_the_others(self):
        verdict = self.verdict_on("barrier_of_a_part")
        for rank in (0, 2):
            position, waits_for = self.position_of(verdict, rank)
            self.assertRegex(position, r"^in #\d+ barrier")
            self.assertEqual(waits_for, [1])
        self.assertRegex(self.position_of(verdict, 1)[0], r"^after #\d+ all_reduce")

    def test_a_chain_over_both_hosts_is_followed(self):
        verdict = self.verdict_on("chain")
        self.assertEqual(self.position_of(verdict, 0)[1], [2])
        self.assertEqual(self.position_of(verdict, 2)[1], [1])

    def test_a_rank_in_another_group(self):
        verdict = self.verdict_on("other_group")
        self.assertIn("barrier of eval", verdict["reason"])
