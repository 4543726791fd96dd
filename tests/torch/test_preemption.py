# SPDX-License-Identifier: Apache-2.0
"""The program in docs/preemption.md: its ranks save at the same step, and continue from there."""
import os
import re
import unittest

import torch

import support

REQUEUE = 75
PAGE = os.path.join(support.ROOT, "docs/preemption.md")
# The file that announces the preemption, in the 20th step.
NOTICE = """    if step == first + 20:
        open("notice", "w").close()
"""


def program():
    with open(PAGE, encoding="utf-8") as page:
        shown = page.read().partition("\n```python\n")[2].partition("```\n")[0]
    before, found, after = shown.partition("    if worker.preempted():")
    return before + NOTICE + found + after


class Page(support.PackageCase):
    def run_once(self):
        """Runs the job until it is preempted. Returns its output and the step in its checkpoint."""
        done = support.run(
            [support.program("muster"), "--nproc-per-node=2", "--preempt-file=notice", "train.py"],
            cwd=self.folder, env=self.environment)
        self.assertEqual(done.returncode, REQUEUE, done.stderr)
        os.unlink(os.path.join(self.folder, "notice"))
        step = torch.load(os.path.join(self.folder, "last.pt"))["step"]
        self.assertRegex(done.stderr, rf"all ranks saved step {step}\b")
        return done.stdout, step

    def test_the_ranks_save_together_and_continue(self):
        with open(os.path.join(self.folder, "train.py"), "w", encoding="utf-8") as file:
            file.write(program())
        out, first = self.run_once()
        self.assertEqual(out, "")
        self.assertGreater(first, 20)
        out, second = self.run_once()
        self.assertEqual(re.findall(r"continues with step (\d+)\n", out), [str(first + 1)] * 2)
        self.assertGreater(second, first + 20)


if __name__ == "__main__":
    unittest.main(verbosity=2)
