#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests scripts/room_tests: every room in lib/README.md has tests, and every test has a room. The
build folder is the argument."""
import importlib.machinery
import importlib.util
import subprocess
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
ROOT = Path(__file__).parents[2]
LOADER = importlib.machinery.SourceFileLoader('room_tests', str(ROOT / 'scripts/room_tests'))
room_tests = importlib.util.module_from_spec(importlib.util.spec_from_loader('room_tests', LOADER))
LOADER.exec_module(room_tests)
BUILD = Path(sys.argv.pop(1)).resolve()
# Labels that name no room, in tests/README.md. "python" is both.
KINDS = {'hangs', 'integration', 'package', 'shared', 'sim', 'slow', 'starters', 'static', 'tidy',
         'torch', 'unit', room_tests.WHOLE}


class Rooms(unittest.TestCase):
    def setUp(self):
        self.tests = room_tests.read_tests(BUILD)
        self.rooms = room_tests.known_rooms()

    def test_both_tables_are_read(self):
        for room in ('base', 'agent', 'rendezvous', 'rendezvous/round', 'apps/muster-bench'):
            self.assertIn(room, self.rooms)

    def test_each_test_of_the_build_has_a_room(self):
        self.assertGreater(len(self.tests), 50)
        self.assertEqual([name for name, test in self.tests.items() if not test.rooms()], [])

    def test_each_room_has_tests(self):
        for room in self.rooms:
            self.assertNotEqual(room_tests.tests_of_room(room, self.tests), [], room)

    def test_labels_are_kinds_or_rooms_that_exist(self):
        labels = set().union(*(test.labels for test in self.tests.values()))
        self.assertLessEqual(labels, KINDS.union(self.rooms))

    def test_each_test_is_built_before_it_runs(self):
        known = room_tests.ninja_targets(BUILD)
        for name, test in self.tests.items():
            for path in test.needs:
                self.assertNotEqual(room_tests.targets_of([path], known), set(), (name, path))

    def test_only_what_is_needed_is_built(self):
        known = room_tests.ninja_targets(BUILD)
        self.assertEqual(room_tests.targets_of(self.tests['base'].needs, known),
                         {'tests/unit/base/muster_test_base'})
        self.assertIn('apps/muster/muster',
                      room_tests.targets_of(self.tests['integration.signals'].needs, known))

    def test_slow_cases_go_with_the_fast_ones(self):
        self.assertIn('process_slow', room_tests.tests_of_room('process', self.tests))

    def test_rooms_below_and_around(self):
        tests = {name: self.tests[name] for name in ('round', 'node_loopback', 'collective')}
        self.assertEqual(room_tests.tests_of_room('rendezvous', tests), ['round', 'node_loopback'])
        self.assertEqual(room_tests.tests_of_room('rendezvous/node', tests), ['node_loopback'])
        self.assertEqual(room_tests.tests_of_room('collective/transport', tests), ['collective'])

    def test_a_room_that_does_not_exist_is_answered_with_those_that_do(self):
        done = subprocess.run([ROOT / 'scripts/test', 'attic'], stderr=subprocess.PIPE, text=True,
                              stdin=subprocess.DEVNULL, timeout=30)
        self.assertEqual(done.returncode, 2)
        self.assertIn('no room "attic" - usage: scripts/test [ROOM…]', done.stderr)
        self.assertIn(' rendezvous/round ', done.stderr)


if __name__ == '__main__':
    unittest.main()
