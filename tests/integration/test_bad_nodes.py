# SPDX-License-Identifier: Apache-2.0
"""A spare takes the place of a node on which rounds fail first. The node joins again as a last
resort, and --node-history makes it one in later jobs, too."""

import itertools
import json
import os
import shutil
import time
import unittest

from harness import eventually
from nodes import NodesCase

CONF = "last_call_timeout=60,lease=60"
NO_DELAYS = ["--restart-delay=0", "--quick-failures=off"]
SPARE = "this node is waiting to be admitted"
# No failure equals an earlier one. Otherwise, the judgement would be that a restart does not help.
CRASHES = ["signal 11", "signal 7", "signal 8", *(f"exit {code}" for code in range(20, 60))]


def on_host(name):
    """The prefix of a command that runs on a host with this name."""
    return ["unshare", "--uts", "sh", "-c", f'hostname {name} && exec "$@"', "sh"]


class BadNodes(NodesCase):
    def form_with_spare(self, restarts=1000, **how):
        job = self.cluster("2", conf=how.pop("conf", CONF),
                           options=["--max-restarts", restarts, *NO_DELAYS,
                                    *how.pop("options", [])])
        self.one, self.two = job.start_all(2)
        job.latest = job.round(2)
        self.three = job.start(3)
        self.three.wait_for_text(SPARE)
        return job

    def setUp(self):
        super().setUp()
        self.crashes = itertools.cycle(CRASHES)

    def crash(self, job, label, nodes):
        """The worker on this node is the first that fails; the next round has these nodes."""
        job.order(job.latest, job.latest.rank_of(label), next(self.crashes))
        job.latest = job.round(2)
        self.assertEqual(job.latest.nodes, nodes)

    def test_a_spare_takes_the_place_of_a_node_that_fails_twice(self):
        job = self.form_with_spare()
        self.crash(job, "n2", ["n1", "n2"])
        self.crash(job, "n2", ["n1", "n3"])
        self.assertEqual(job.latest.restarts, 2)
        lines = [line for line in self.one.err().splitlines() if "first failure of" in line]
        self.assertEqual(len(lines), 1, lines)
        self.assertRegex(lines[0], "^muster: warning: the first failure of 2 rounds within 1800s "
                                   r"was on node '.*' \(last cause: signal\); a spare takes its "
                                   "place$")
        self.two.wait_for_text("a spare takes the place of this node: the first failure of 2 "
                               "rounds within 1800s was on node",
                               "This node joins again, and is a last resort for 1800s", SPARE)
        self.three.kill_all()  # without another node, the last resort is used
        self.assertEqual(job.round(2).nodes, ["n1", "n2"])
        job.finish(self.one, self.two)

    def test_a_node_on_which_the_same_signal_repeats_is_replaced(self):
        job = self.form_with_spare()
        self.crashes = itertools.repeat("signal 11")
        self.crash(job, "n2", ["n1", "n2"])
        self.crash(job, "n2", ["n1", "n3"])
        self.assertIn("signal); a spare takes its place", self.one.err())
        self.crash(job, "n3", ["n1", "n3"])  # the failure has moved with its rank
        self.crash(job, "n3", ["n1", "n3"])
        self.assertEqual(self.one.err().count("a spare takes its place"), 1)
        job.finish()

    def test_the_node_that_leads_is_replaced_too(self):
        job = self.form_with_spare()
        self.crash(job, "n1", ["n1", "n2"])
        self.crash(job, "n1", ["n2", "n3"])
        self.one.wait_for_text("a spare takes the place of this node", SPARE)
        job.finish()

    def test_after_the_cool_down_it_is_a_spare_like_any_other(self):
        cool_down = 15
        job = self.form_with_spare(conf=f"{CONF},cool_down={cool_down}")
        self.crash(job, "n2", ["n1", "n2"])
        self.crash(job, "n2", ["n1", "n3"])
        swapped = time.monotonic()
        self.two.wait_for_text(SPARE)

        def is_readmitted():
            job.order(job.latest, job.latest.rank_of("n3"), next(self.crashes))
            job.latest = job.round(2)
            return job.latest.nodes == ["n1", "n2"]
        eventually(is_readmitted, job.describe, 4 * cool_down)
        self.assertGreater(time.monotonic() - swapped, cool_down - 1)
        eventually(lambda: self.three.err().count(SPARE) == 2, job.describe)
        job.finish()

    def test_without_a_spare_it_stays(self):
        job, _, job.latest = self.form("2", 2, conf=CONF, options=["--max-restarts", 1000,
                                                                   *NO_DELAYS])
        for _ in range(3):
            self.crash(job, "n2", ["n1", "n2"])
        self.assertEqual(job.nodes[0].err().count("there is no spare"), 1)
        job.finish()

    def test_errors_of_the_program_do_not_count(self):
        job = self.form_with_spare()
        for number in range(3):
            job.order(job.latest, 1, f"fail ValueError: batch {number}")
            job.latest = job.round(2)
            self.assertEqual(job.latest.nodes, ["n1", "n2"])
        self.assertNotIn("first failure of", self.one.err())
        job.finish()

    def test_in_events_and_in_the_report(self):
        logs = self.folder / "logs"
        job = self.form_with_spare(restarts=2, options=["--log-dir", logs])
        self.crash(job, "n2", ["n1", "n2"])
        self.crash(job, "n2", ["n1", "n3"])
        self.two.wait_for_text(SPARE)
        job.order(job.latest, 0, "exit 7")
        job.ends(self.one, self.two, self.three, code=7)
        events = [json.loads(line) for path in logs.glob("**/events.jsonl")
                  for line in path.read_text().splitlines()]
        suspect, = [event for event in events if event["event"] == "node_suspected"]
        self.assertEqual((suspect["cause"], suspect["replaced"]), ("signal", True))
        reports = [json.loads(path.read_text()) for path in logs.glob("**/report.json")]
        told = [report["suspected_nodes"] for report in reports if "suspected_nodes" in report]
        self.assertEqual(told, [[{"node": suspect["suspect"], "cause": "signal", "replaced": True,
                                  "text": suspect["text"]}]])

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("unshare"), "needs root and unshare")
    def test_the_next_job_uses_a_bad_node_last(self):
        history = self.folder / "nodes"
        options = ["--node-history", history, "--max-restarts", 9, *NO_DELAYS]

        def start(job, number):
            return job.start(number, popen={"prefix": on_host(f"host{number}")})
        job = self.cluster("2", conf=CONF, options=options)
        start(job, 1), start(job, 2)
        job.latest = job.round(2)
        self.crash(job, "n2", ["n1", "n2"])
        self.crash(job, "n2", ["n1", "n2"])
        job.finish()
        entry, = map(json.loads, history.read_text().splitlines())
        self.assertEqual((entry["v"], entry["node"], entry["run"], entry["cause"]),
                         (1, "host2", job.name, "signal"))
        after = self.cluster("2", conf=CONF, options=options)
        start(after, 1), start(after, 2).wait_for_text(
            f"this node is a last resort: '{history}' lists it 1 time")
        start(after, 3)
        self.assertEqual(after.round(2).nodes, ["n1", "n3"])
        after.finish()


if __name__ == "__main__":
    unittest.main()
