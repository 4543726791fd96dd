# SPDX-License-Identifier: Apache-2.0
"""examples/elastic.cpp: a rank is killed, and the job computes the same as without the failure. The
documentation shows the same program."""
import os
import pathlib
import signal
import unittest

from harness import JobCase, children, eventually, read

EXAMPLE = os.environ["MUSTER_ELASTIC_EXAMPLE"]
ROOT = pathlib.Path(__file__).parents[2]
RANKS, STEPS = 2, 30000  # enough that the job still runs when it is killed


class Example(JobCase):
    def start(self, name):
        """Returns the job when all ranks train."""
        logs = self.folder / name
        job = self.job("--restart=rank", "--max-restarts=1", f"--nproc-per-node={RANKS}",
                       "--log-dir", logs, "--no-python", EXAMPLE, STEPS)
        eventually(lambda: sum(read(path).count('"worker_ready"')
                               for path in logs.rglob("events.jsonl")) == RANKS, "all ranks train")
        return job

    def test_a_killed_rank_changes_nothing(self):
        expected = self.wait_for_exit(self.start("undisturbed"), code=0).out
        self.assertRegex(expected, rf"^({STEPS} steps, first weight [01]\.\d+\n){{{RANKS}}}$")
        job = self.start("killed")
        os.kill(children(job.agent())[-1], signal.SIGKILL)
        ended = self.wait_for_exit(job, code=0)
        self.assertIn("restart 1 of 1\n", ended.err)
        self.assertNotIn("all workers", ended.err)
        self.assertEqual(ended.out, expected)

    def test_the_documentation_shows_it(self):
        page = (ROOT / "docs/surviving-failures.md").read_text()
        shown = page.partition("\n```cpp\n")[2].partition("```\n")[0]
        program = (ROOT / "examples/elastic.cpp").read_text()
        self.assertEqual(shown, program[program.index("#include"):])


if __name__ == "__main__":
    unittest.main(verbosity=2)
