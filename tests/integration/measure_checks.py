# SPDX-License-Identifier: Apache-2.0
"""Prints how many times muster --check finds each real defect in 20 runs on two nodes, and how many
of 100 healthy runs name a node. Not a test, because it takes minutes. RUNS and HEALTHY change the
numbers. Needs root, and
    MUSTER_BIN=… MUSTER_PUPPET=… MUSTER_NODE_WORKER=… MUSTER_SHIFTED_CLOCK=… \\
        PYTHONPATH=tests/integration python3 tests/integration/measure_checks.py"""
import os
import unittest

from defects import DEFECTS, Fleet, Unavailable
from nodes import NodesCase

RUNS = int(os.environ.get("RUNS", "20"))
HEALTHY = int(os.environ.get("HEALTHY", "100"))


class Checks(NodesCase):
    def count(self, defect):
        """The number of runs that name this defect of the second node, and nothing else."""
        found = 0
        for _ in range(RUNS):
            lines = Fleet(self).run(defect)
            found += defect.is_named(lines)
            if not defect.is_named(lines):
                print(f"  {defect.name}: {lines}", flush=True)
        return found

    def test_defects(self):
        for defect in DEFECTS:
            try:
                print(f"{defect.name}: {self.count(defect)} of {RUNS}", flush=True)
            except Unavailable as why:
                print(f"{defect.name}: {why}", flush=True)

    def test_healthy(self):
        named = [lines for lines in (Fleet(self).run() for _ in range(HEALTHY)) if lines]
        print(f"healthy: {len(named)} of {HEALTHY} runs name something: {named}", flush=True)


if __name__ == "__main__":
    unittest.main()
