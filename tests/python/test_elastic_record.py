# SPDX-License-Identifier: Apache-2.0
"""A rank's record: damaged bits, deaths at every byte of a write, and what a replacement finds."""
import os
import random
import unittest
import unittest.mock

import support  # noqa: F401: runs the checks of tests/support/cases.py
from muster.elastic import _record
from muster.elastic._record import Record

SLOT = 4096
HEAD = len(_record._NOTHING)


class Death(Exception):
    pass


class Mortal(bytearray):
    """Memory of a process that dies when it has stored this number of bytes."""

    left = 0

    def __setitem__(self, place, data):
        count = min(self.left, len(data))
        super().__setitem__(slice(place.start, place.start + count), data[:count])
        self.left -= count
        if count < len(data):
            raise Death


def data_of(commits, is_commit, length=20):
    return (f"{commits} {is_commit} ".encode() * length)[:length]


def write(record, commits, is_commit, length=20):
    record.write(commits, data_of(commits, is_commit, length), is_commit)


class Records(unittest.TestCase):
    def setUp(self):
        self.memory = bytearray(_record.SLOTS * SLOT)
        self.record = Record(self.memory)

    def test_a_replacement_finds_commits_and_intents(self):
        write(self.record, 4, True)
        write(self.record, 5, False)
        found = Record(self.memory)
        self.assertEqual(found.read(4), data_of(4, True))
        self.assertEqual(found.read(5), data_of(5, False))
        self.assertTrue(found.has_commit(4))
        self.assertFalse(found.has_commit(5))
        for commits in (0, 3, 6, 8):
            self.assertIsNone(found.read(commits))
        write(self.record, 5, True)
        self.assertEqual(found.read(5), data_of(5, True))

    def test_a_death_at_each_byte_of_a_write(self):
        """The others may have one commit more than the last one of this rank, or one less."""
        self.check_deaths()
        with unittest.mock.patch("zlib.crc32", return_value=0):  # the order of the steps suffices
            self.check_deaths()

    def check_deaths(self):
        deaths = 0
        for is_commit in (False, True):
            for left in range(3 * HEAD + 40):
                memory = Mortal(_record.SLOTS * SLOT)
                memory.left = 1 << 20
                record = Record(memory)
                for commits in range(7, 10):
                    write(record, commits, False)
                    write(record, commits, True)
                if is_commit:
                    write(record, 10, False)
                memory.left = left
                try:
                    record.write(10, data_of(10, is_commit, 30), is_commit)
                except Death:
                    deaths += 1
                found = Record(memory)
                self.assertEqual(found.read(9), data_of(9, True))
                if is_commit:
                    self.assertIn(found.read(10), (data_of(10, False), data_of(10, True, 30)))
                else:
                    self.assertEqual(found.read(8), data_of(8, True))
                    self.assertIn(found.read(10), (None, data_of(10, False, 30)))
        self.assertGreater(deaths, 2 * HEAD)

    def test_flipped_bits_are_found(self):
        seed = int(os.environ.get("SEED", random.randrange(2**32)))
        print("SEED", seed)
        chance = random.Random(seed)
        self.record.write(6, chance.randbytes(3000), True)
        write(self.record, 7, False)
        whole = bytes(self.memory)
        start = self.record._start(6, True)
        for _ in range(10_000):
            bit = chance.randrange(8 * (HEAD + 3000))
            self.memory[start + bit // 8] ^= 1 << bit % 8
            numbers = {6, int.from_bytes(self.memory[start + 8:start + 16], "little", signed=True)}
            for commits in numbers - {7}:
                self.assertIsNone(self.record.read(commits), f"seed {seed}, bit {bit}")
            self.assertEqual(self.record.read(7), data_of(7, False))
            self.memory[start + bit // 8] ^= 1 << bit % 8
        self.assertEqual(bytes(self.memory), whole)
        self.assertIsNotNone(self.record.read(6))

    def test_other_lengths_and_versions_are_not_read(self):
        write(self.record, 6, True)
        start = self.record._start(6, True)
        for length in (0, 19, 21, SLOT, 2**63, 2**64 - 1):
            memory = bytearray(self.memory)
            memory[start + HEAD - 8:start + HEAD] = length.to_bytes(8, "little")
            self.assertIsNone(Record(memory).read(6), length)
        self.memory[start:start + 4] = b"MR02"
        self.assertIsNone(self.record.read(6))

    def test_too_much_data(self):
        write(self.record, 1, True, SLOT - HEAD)
        self.assertEqual(self.record.read(1), data_of(1, True, SLOT - HEAD))
        with self.assertRaisesRegex(MemoryError, f"need {SLOT + 1} bytes .* provides {SLOT}. "
                                                 "Increase --vault-memory"):
            write(self.record, 3, True, SLOT - HEAD + 1)
        self.assertIsNotNone(self.record.read(1))

    def test_later_entries_are_forgotten(self):
        write(self.record, 4, True)
        for is_commit in (False, True):
            write(self.record, 5, is_commit)
        self.record.forget_after(4)
        self.assertEqual((self.record.read(4), self.record.read(5)), (data_of(4, True), None))

    def test_forked_children_do_not_write(self):
        child = os.fork()
        if child == 0:
            write(self.record, 1, True)
            os._exit(int(self.record.read(1) is not None))
        self.assertEqual(os.waitpid(child, 0)[1], 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
