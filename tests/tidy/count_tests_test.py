#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/count_tests tested: the closing line of scripts/test must not be rosier than the run."""
import importlib.machinery
import importlib.util
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
PATH = str(Path(__file__).parents[2] / 'scripts/count_tests')
LOADER = importlib.machinery.SourceFileLoader('count_tests', PATH)
SPEC = importlib.util.spec_from_loader('count_tests', LOADER)
count_tests = importlib.util.module_from_spec(SPEC)
LOADER.exec_module(count_tests)


class Counting(unittest.TestCase):
    def check(self, status, output, wanted):
        with tempfile.NamedTemporaryFile('w', suffix='.xml') as file:
            file.write(f'<testsuite><testcase name="a" status="{status}"><system-out>{output}'
                       '</system-out></testcase></testsuite>')
            file.flush()
            self.assertEqual(count_tests.count(file.name), [wanted])

    def test_programs_of_catch(self):
        self.check('run', 'All tests passed (3 assertions in 7 test cases)\n', (7, 0, 0))
        self.check('fail', 'test cases: 10 | 8 passed | 2 failed\n', (8, 2, 0))
        self.check('fail', 'test cases: 1 | 1 failed\n', (0, 1, 0))

    def test_a_crash_after_good_words_is_a_failure(self):
        self.check('fail', 'All tests passed (3 assertions in 7 test cases)\nkilled', (0, 1, 0))
        self.check('fail', 'Ran 3 tests in 1s\n\nOK\n', (2, 1, 0))

    def test_programs_of_unittest(self):
        self.check('run', 'Ran 9 tests in 1s\n\nOK (skipped=2)\n', (7, 0, 2))
        self.check('fail', 'Ran 9 tests in 1s\n\nFAILED (failures=1, errors=1, skipped=1)\n',
                   (6, 2, 1))

    def test_other_programs_count_once_and_what_did_not_run_failed(self):
        self.check('run', 'whatever', (1, 0, 0))
        self.check('fail', 'whatever', (0, 1, 0))
        self.check('notrun', '', (0, 1, 0))


if __name__ == '__main__':
    unittest.main()
