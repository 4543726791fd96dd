#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""README.md and docs/ match the programs: each block that is marked as runnable runs, each
mentioned option exists, and the generated reference is up to date."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / 'README.md').read_text()
README_LINES_MAX = 150
PAGES = {path: path.read_text() for path in
         [ROOT / 'README.md', *sorted((ROOT / 'docs').rglob('*.md'))]}
PROGRAMS = {'muster': os.environ['MUSTER'], 'muster-store': os.environ['STORE'],
            'musterctl': os.environ['CTL']}
# Options of other programs that the text mentions.
FOREIGN = set('''
--bind-to --build --cflags --config_file --cpus-per-task --epochs --find-links --from-literal
--gpus-per-task --gres --host --install --jobid --kill-on-bad-exit --libs --local_rank --lr
--machine_rank --main_process_ip --main_process_port --no-index --no-kill --node_rank --nodes
--nproc_per_node --ntasks-per-node --num_machines --num_processes --overlap --ppn --prefix
--preset --pty --rdzv_id --requeue --resv-ports --signal --torch'''.split())


def blocks(kind, text):
    return re.findall(rf'^```{kind}\n(.*?)^```', text, re.M | re.S)


class Readme(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix='muster-readme-'))
        self.addCleanup(shutil.rmtree, self.folder)
        for name, path in PROGRAMS.items():
            (self.folder / name).symlink_to(path)

    def run_line(self, line):
        environment = {**os.environ, 'PATH': f'{self.folder}:{os.environ["PATH"]}',
                       'TMPDIR': str(self.folder)}
        environment.pop('LOGS', None)
        return subprocess.run(["bash", "-c", line], cwd=ROOT, env=environment, text=True,
                              timeout=60, stdin=subprocess.DEVNULL, capture_output=True)

    def test_each_line_that_is_marked_as_runnable_succeeds(self):
        count = 0
        for path, text in PAGES.items():
            for block in blocks('sh runnable', text):
                lines = [line for line in block.splitlines() if line]
                settings = [line for line in lines if re.match(r'\w+=', line)]
                for line in [line for line in lines if line not in settings]:
                    count += 1
                    with self.subTest(line, page=path.name):
                        done = self.run_line('\n'.join([*settings, line]))
                        self.assertEqual((done.returncode, done.stderr), (0, ''))
                        self.assertNotEqual(done.stdout, '')
        self.assertGreaterEqual(count, 8)

    def test_the_readme_is_short(self):
        self.assertLessEqual(README.count('\n'), README_LINES_MAX)

    def test_each_option_that_is_named_exists(self):
        known = ''.join(subprocess.run([path, option], text=True, check=True,
                                       stdout=subprocess.PIPE).stdout
                        for path, option in ((PROGRAMS['muster'], '--help'),
                                             (PROGRAMS['muster'], '--print-man'),
                                             (PROGRAMS['muster-store'], '--help'),
                                             (PROGRAMS['musterctl'], '--help')))
        known = re.sub(r'\\f[BIR]|\\', '', known)
        named = set(re.findall(r'(?<![\w-])--[a-z][a-z_-]*[a-z](?![\w*-])',
                               ''.join(PAGES.values())))
        self.assertGreaterEqual(len(named), 50)
        self.assertEqual({name for name in named - FOREIGN
                          if not re.search(re.escape(name) + r'(?![\w-])', known)}, set())
        self.assertEqual(FOREIGN - named, set())

    def test_each_exit_code_of_the_table_is_in_the_manual_page(self):
        page = subprocess.run([PROGRAMS['muster'], '--print-man'], text=True, check=True,
                              stdout=subprocess.PIPE).stdout
        for code in ('2', '69', '70', '126', '127', '128'):
            self.assertRegex(README, rf'(?m)^\|.*\b{code}\b')
            self.assertRegex(page, rf'\b{code}\b')

    def test_each_variable_that_the_collective_library_reads_is_in_its_table(self):
        room = ROOT / 'lib/collective'
        read = {name for file in room.glob('**/*.[ch]pp') for name in
                re.findall(r'"(MUSTER_(?:COLLECTIVE|NCCL|CUDA)_[A-Z_]+)"', file.read_text())}
        self.assertGreaterEqual(len(read), 12, read)
        table = re.search(r'(?ms)^\| variable \|.*?^$', (room / 'README.md').read_text()).group()
        named = set(re.findall(r'`(MUSTER_\w+)`', table.replace('…', 'MUSTER_COLLECTIVE')))
        self.assertEqual(read - named, set())
        self.assertEqual(named - read, set())
        source = (room / 'bootstrap/environment.cpp').read_text()
        for word in re.search(r'use one of ([\w, ]+)"', source).group(1).split(', '):
            self.assertIn(f'`{word}`', table)

    def test_the_option_reference_is_what_the_programs_print(self):
        done = subprocess.run([ROOT / 'scripts/reference', '--check'], text=True,
                              capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, '', ''))

    def test_quickstart_takes_what_is_said_and_starts_programs_that_exist(self):
        script = (ROOT / 'scripts/quickstart').read_text()
        for args in re.findall(r'`scripts/quickstart\s([^`]+)`', README) + ['']:
            self.assertIn(f'scripts/quickstart {args}'.strip(), script)
        wrong = subprocess.run([ROOT / 'scripts/quickstart', '--tork'], text=True,
                               capture_output=True, timeout=60)
        self.assertEqual((wrong.returncode, wrong.stdout), (1, ''))
        self.assertIn("unknown arguments '--tork'", wrong.stderr)
        workers = re.findall(r'(?m)^ *worker=(\S+)$', script)
        self.assertEqual(len(workers), 2)
        for worker in workers:
            made = worker.removeprefix('build/release/')
            if made == worker:
                self.assertTrue((ROOT / worker).exists(), worker)
            else:
                self.assertRegex(script, rf'--target .*\b{Path(made).name}\b')
        self.assertRegex(script, r'--target .*\bmuster_share\b')  # "cmake --install" needs it

    def test_each_package_of_the_table_is_installed_by_the_script(self):
        script = (ROOT / 'scripts/install_deps').read_text()
        page = (ROOT / 'docs/install.md').read_text()
        for row in page[page.index('| Debian package'):].splitlines()[2:]:
            for package in re.findall(r'[\w+.-]+', row.split('|')[1] if '|' in row else ''):
                self.assertRegex(script, rf'(?m)[ (]{re.escape(package)}(\s|$)')


if __name__ == '__main__':
    unittest.main()
