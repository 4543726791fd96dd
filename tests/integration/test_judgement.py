# SPDX-License-Identifier: Apache-2.0
"""The judgement whether a restart can help, with Python programs that fail: reported by default,
acted on with --on-verdict=stop and --no-restart-on."""

import json
import os
import unittest

from harness import JobCase
from nodes import LONG_LEASE, NodesCase, last_block

# Each attempt of the last rank adds a letter to the file. Other ranks must not: its failure can end
# them before they run.
COUNTS = """import os, signal
if int(os.environ['RANK']) == int(os.environ['WORLD_SIZE']) - 1:
    open(os.environ['STARTS'], 'a').write('x')
"""

# Rank 1 fails in each attempt at step 3, while rank 0 waits.
SAME_BUG = COUNTS + """import muster.worker
if os.environ["RANK"] == "0":
    signal.pause()
for step in range(4):
    muster.worker.progress(step)
raise ValueError("bad batch")
"""

TWICE = ("a restart will not help: rank 1 failed twice at step 3 with the same traceback "
         "(ValueError: bad batch)")


class Judgement(JobCase):
    def setUp(self):
        super().setUp()
        self.starts = self.folder / "starts"

    def fails(self, text, *options, nproc=2, code=1):
        """The ended job and the number of its attempts."""
        script = self.python(text)
        ended = self.run_job("--nproc-per-node", nproc, "--max-restarts", 3, "--restart-delay=0",
                             "--log-dir", self.folder / "logs", *options, script, code=code,
                             env=self.environment())
        return ended, len(self.starts.read_text())

    def environment(self):
        return dict(os.environ, STARTS=str(self.starts))

    def test_the_same_bug_twice_is_reported_and_uses_all_restarts(self):
        ended, attempts = self.fails(SAME_BUG, "--quick-failures=off")
        self.assertEqual(attempts, 4, ended)
        self.assertEqual(ended.err.count("muster: warning: " + TWICE), 2, ended)
        self.assertIn("\n  all 3 restarts are used up\n  " + TWICE + "\n", ended.err)
        report, = (self.folder / "logs").glob("*/report.json")
        root = json.loads(report.read_text())["root_cause"]
        self.assertEqual(root["judgement"], {"advice": "stop", "cause": "bug", "text": TWICE})
        self.assertEqual(root["step"], 3)
        events, = (self.folder / "logs").glob("*/events.jsonl")
        failed = [json.loads(line) for line in events.read_text().splitlines()
                  if '"worker_failed"' in line]
        self.assertEqual([one["judgement"]["advice"] for one in failed],
                         ["restart", "stop", "stop", "stop"])

    def test_on_verdict_stop_ends_the_job_at_the_second_failure(self):
        ended, attempts = self.fails(SAME_BUG, "--on-verdict=stop")
        self.assertEqual(attempts, 2, ended)
        self.assertIn("\n  " + TWICE + "\n", ended.err)
        self.assertNotIn("muster: warning: a restart", ended.err, ended)

    def test_an_import_error_on_all_ranks_stops_at_once(self):
        ended, attempts = self.fails(COUNTS + "import no_such_module\n", "--on-verdict=stop")
        self.assertEqual(attempts, 1, ended)
        self.assertRegex(
            ended.err, r"a restart will not help: all 2 ranks failed within \S+ with an import "
                       r"error \(ModuleNotFoundError: No module named 'no_such_module'\)")

    def test_an_import_error_on_one_rank_restarts(self):
        ended, attempts = self.fails(
            COUNTS +
            "if os.environ['RANK'] == '1' and os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n"
            "    import no_such_module\n",
            "--on-verdict=stop", code=0)
        self.assertEqual(attempts, 2, ended)

    def test_exit_codes_that_the_user_names_always_act(self):
        text = COUNTS + "exit(int(os.environ['CODE']))\n"
        for code, attempts in ((3, 1), (75, 1), (79, 3)):
            self.starts.write_text("")
            with self.subTest(code):
                ended, seen = self.fails(text.replace("os.environ['CODE']", str(code)),
                                         "--no-restart-on=3,64-78", nproc=1, code=code)
                self.assertEqual(seen, attempts, ended)
                named = f"not restarted: rank 0 exited with code {code} (--no-restart-on)"
                self.assertEqual(named in ended.err, attempts == 1, ended)


class Nodes(NodesCase):
    def test_all_nodes_stop_and_print_the_same_sentence(self):
        job, nodes, one = self.form("2", 2, conf=LONG_LEASE,
                                    options=["--max-restarts", "3", "--no-restart-on=7"])
        job.order(one, 1, "exit 7")
        ended = [node.end() for node in nodes]
        self.assertEqual([one.code for one in ended], [7, 7], job.describe())
        blocks = [last_block(one) for one in ended]
        self.assertEqual(blocks[0], blocks[1])
        self.assertIn("not restarted: rank 1 exited with code 7 (--no-restart-on)",
                      "\n".join(blocks[0]) if isinstance(blocks[0], list) else blocks[0])


if __name__ == "__main__":
    unittest.main()
