#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests scripts/count_tests: the last line of scripts/test must not look better than the run
was."""
import importlib.machinery
import importlib.util
import subprocess
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

    def test_of_failures_those_lines_are_shown_that_say_why(self):
        bar, rule = '=' * 70, '-' * 70
        unittests = (f'a ... ok\n\n{bar}\nFAIL: b\n{rule}\nTraceback\nno\n\n{bar}\nERROR: c\n'
                     f'{rule}\nfoo\n\n{rule}\nRan 3 tests in 1s\n\nFAILED (failures=1, errors=1)\n')
        self.assertEqual(count_tests.failures_in(unittests),
                         [f'FAIL: b\n{rule}\nTraceback\nno', f'ERROR: c\n{rule}\nfoo'])
        catch = '.\n' * 50 + 'a_test.cpp:9: FAILED:\n  CHECK(1 == 2)\n' + '.\n' * 50
        [block] = count_tests.failures_in(catch)
        self.assertIn('a_test.cpp:9: FAILED:\n  CHECK(1 == 2)', block)
        self.assertEqual(count_tests.failures_in('said\n' * 99 + 'killed'),
                         ['said\n' * 39 + 'killed'])
        self.assertEqual(count_tests.failures_in(''), [''])

    def test_the_program_names_what_failed_and_where(self):
        with tempfile.TemporaryDirectory() as folder:
            for variant, status in (('dev', 'run'), ('asan', 'fail')):
                Path(folder, f'{variant}.xml').write_text(
                    f'<testsuite><testcase name="channel" status="{status}"><system-out>it died\n'
                    '</system-out></testcase></testsuite>')
            files = [f'{folder}/dev.xml', f'{folder}/asan.xml']
            done = subprocess.run([sys.executable, PATH, '--failures', *files],
                                  stdout=subprocess.PIPE, text=True)
            self.assertEqual(done.stdout, '--- channel (asan)\nit died\n')
            done = subprocess.run([sys.executable, PATH, *files], stdout=subprocess.PIPE, text=True)
            self.assertEqual(done.stdout, '1 1 0\n')


if __name__ == '__main__':
    unittest.main()
