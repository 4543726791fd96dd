# SPDX-License-Identifier: Apache-2.0
"""The backend "muster" gives the same results as gloo in cases that PyTorch and programs based on
it use. It can replace gloo, and processes exit without an abort whatever is in progress."""
import os
import re
import sys
import tempfile
import unittest

import support
import torch

LIBRARY = os.environ["MUSTER_COLLECTIVE_LIBRARY"]
PACKAGE = os.path.join(support.ROOT, "lib", "python")
IS_OLD = int(torch.__version__.split(".")[0]) < 2
LEAST_CASES = 10 if IS_OLD else 23


class Parity(unittest.TestCase):
    def launch(self, ranks, name, *words, **variables):
        folder = tempfile.TemporaryDirectory(prefix="muster-test-")
        self.addCleanup(folder.cleanup)
        return support.run(
            [support.program("muster"), f"--nproc-per-node={ranks}",
             support.worker(name), *words],
            env={"PYTHON_EXEC": sys.executable, "TMPDIR": folder.name, "PYTHONPATH": PACKAGE,
                 "MUSTER_COLLECTIVE_LIBRARY": LIBRARY, **support.half(), **variables})

    def test_each_case_gives_what_gloo_gives(self):
        done = self.launch(3, "muster_parity.py")
        text = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, text)
        alike = re.findall(r"(\w+): as gloo", text)
        self.assertNotIn("gives", re.sub(r"\w+: as gloo", "", done.stdout), text)
        self.assertGreaterEqual(len(set(alike)), LEAST_CASES, text)
        self.assertEqual([name for name in set(alike) if alike.count(name) != 3], [], text)

    def ends(self, ranks, word, code):
        done = self.launch(ranks, "muster_ends.py", word)
        text = done.stdout + done.stderr
        self.assertEqual(done.returncode, code, text)
        for bad in ("terminate called", "Fatal Python error", "signal 6", "signal 11"):
            self.assertNotIn(bad, text)
        return done.stdout

    def test_the_end_of_a_process_waits_for_callbacks_and_for_nothing_else(self):
        self.assertEqual(self.ends(3, "callback", 0).count(" ends"), 3)

    @unittest.skipIf(IS_OLD, "PyTorch 1.13 aborts then, over gloo and alone, too")
    def test_a_process_ends_while_a_thread_is_in_an_operation(self):
        self.assertEqual(self.ends(2, "thread", 0).count(" ends"), 2)

    def test_an_exception_ends_a_process_with_an_operation_under_way(self):
        self.assertIn("rank 0 ends", self.ends(2, "exception", 7))

    def test_a_process_exits_at_once_with_an_operation_under_way(self):
        self.assertIn(" ends", self.ends(2, "exit", 0))

    def test_a_rank_is_killed_in_an_asynchronous_operation(self):
        self.ends(3, "killed", 128 + 9)

    def test_a_group_that_is_dropped_waits_for_what_the_others_join_soon(self):
        self.assertEqual(self.ends(2, "dropped", 0).count(" ends"), 2)

    def test_it_stands_in_for_gloo(self):
        for words in ([], ["hook"]):
            with self.subTest(words=words):
                done = self.launch(2, "muster_replaces.py", *words, MUSTER_TORCH_REPLACES="gloo")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertEqual(
                    sorted(done.stdout.splitlines()),
                    [f"rank {rank}: ['muster', 'muster'] 12" for rank in (0, 1)])


if __name__ == "__main__":
    unittest.main(verbosity=2)
