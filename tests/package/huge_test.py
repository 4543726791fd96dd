# SPDX-License-Identifier: Apache-2.0
"""Sums of more elements and bytes than 32 bits can count. Each element is compared with its
expected value. huge_test.py BENCH-RANKS"""
import os
import subprocess
import sys
import unittest

RANKS = sys.argv.pop(1)
ELEMENTS = 2 ** 32 + 4096
NEEDED = 2.5 * ELEMENTS  # bytes: a buffer for each of two ranks, and some room


def available():
    with open("/proc/meminfo", encoding="ascii") as facts:
        return next(int(line.split()[1]) * 1024 for line in facts if "MemAvailable" in line)


class Huge(unittest.TestCase):
    def sums(self, memory):
        if available() < NEEDED:
            self.skipTest(f"needs {NEEDED / 2**30:.0f} GiB of free memory")
        done = subprocess.run([RANKS, "2", memory, f"i8:{ELEMENTS}:1:1"], capture_output=True,
                              text=True, timeout=300)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(done.stdout.startswith(f"i8:{ELEMENTS} "), done.stdout)

    def test_plain_memory(self):
        self.sums("private")

    def test_memory_of_the_library(self):
        self.sums("library")

    def test_over_tcp(self):
        self.sums("tcp")


if __name__ == "__main__":
    unittest.main()
