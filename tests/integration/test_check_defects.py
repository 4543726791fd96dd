# SPDX-License-Identifier: Apache-2.0
"""--check finds real defects: two nodes on this machine, of which the second is limited by the
kernel, or sees another clock or other GPUs. measure_checks.py repeats this."""

import unittest

from defects import DEFECTS, Fleet, Unavailable, names_a_node
from nodes import NodesCase


class Defects(NodesCase):
    def test_healthy_nodes(self):
        self.assertEqual([line for line in Fleet(self).run() if names_a_node(line)], [])


def named(defect):
    def test(self):
        try:
            lines = Fleet(self).run(defect)
        except Unavailable as why:
            self.skipTest(str(why))
        self.assertTrue(defect.is_named(lines), lines)
    return test


for _defect in DEFECTS:
    setattr(Defects, "test_" + _defect.name.replace(" ", "_").replace("/", ""), named(_defect))

if __name__ == "__main__":
    unittest.main()
