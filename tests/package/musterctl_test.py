#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""musterctl from a user's perspective: output on stdout, one-line errors, documented exit codes."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

CTL, STORE, MUSTER = (os.environ[name] for name in ('CTL', 'STORE', 'MUSTER'))


def ctl(*args):
    return subprocess.run([CTL, *map(str, args)], text=True, timeout=60, capture_output=True,
                          stdin=subprocess.DEVNULL)


class Musterctl(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix='musterctl-'))
        self.addCleanup(shutil.rmtree, self.folder)

    def expect(self, code, out, *args):
        done = ctl(*args)
        self.assertEqual((done.returncode, done.stdout), (code, out), (args, done.stderr))
        self.assertEqual(done.stderr.count('\n'), 1 if code > 1 else 0, done.stderr)
        return done.stderr

    def test_usage_errors_are_one_line_that_says_what_is_wrong(self):
        for args, said in (((), 'no command'), (('stor',), 'stor'), (('store',), 'subcommand'),
                            (('store', 'get'), 'HOST:PORT'),
                            (('store', 'get', 'a:1'), 'KEY'),
                            (('store', 'get', 'nowhere', 'k'), "'nowhere' needs a port"),
                            (('store', 'get', 'a:99999', 'k'), '65535'),
                            (('store', 'add', 'a:1', 'k', 'x'), "'x' is not a whole number"),
                            (('store', 'set', 'a:1', 'k'), 'VALUE'),
                            (('resolve',), 'NAME'), (('resolve', 'a', 'b'), 'b'),
                            (('resolve', 'localhost', '--timeout=x'), "--timeout: 'x'"),
                            (('resolve', 'a b'), "'a b'"),
                            (('--bad',), '--bad')):
            with self.subTest(args):
                self.assertIn(said, self.expect(2, '', *args))

    def test_help_names_every_command(self):
        text = ctl('--help').stdout
        for word in ('add', 'append', 'check', 'count', 'delete', 'get', 'keys', 'ping', 'set',
                     'wait'):
            self.assertIn(f'musterctl store {word} HOST:PORT', text)
        self.assertIn('musterctl resolve', text)
        self.assertIn('musterctl report', text)

    def test_every_store_command_against_a_server(self):
        port_file = self.folder / 'port'
        server = subprocess.Popen([STORE, '--port', '0', '--port-file', port_file])
        try:
            while not port_file.exists():
                self.assertIsNone(server.poll(), 'muster-store ended early')
            at = 'localhost:' + port_file.read_text().strip()
            for code, out, args in (
                    (0, '', ('ping', at)), (0, '0\n', ('count', at)),
                    (0, '', ('set', at, 'key', 'value')), (0, 'value', ('get', at, 'key')),
                    (0, '', ('append', at, 'key', '2')), (0, 'value2', ('get', at, 'key')),
                    (0, '5\n', ('add', at, 'n', '5')), (0, '3\n', ('add', at, 'n', '--', '-2')),
                    (0, '', ('check', at, 'key', 'n')), (1, '', ('check', at, 'key', 'none')),
                    (0, '', ('wait', at, 'key', 'n')), (0, 'key\nn\n', ('keys', at)),
                    (0, '2\n', ('count', at)),
                    (0, '', ('delete', at, 'key')), (1, '', ('delete', at, 'key'))):
                with self.subTest(args):
                    self.expect(code, out, 'store', *args)
            said = self.expect(69, '', 'store', 'get', at, 'none', '--timeout=0.1')
            self.assertIn('none', said)
        finally:
            server.terminate()
            self.assertEqual(server.wait(60), 0)
        said = self.expect(69, '', 'store', 'ping', at, '--timeout=0.1')
        self.assertIn(at, said)

    def test_resolve_prints_addresses(self):
        self.expect(0, '127.0.0.1\n::1\n', 'resolve', 'localhost')
        self.expect(0, 'fe80::1\n', 'resolve', 'fe80::1')

    def test_report_prints_what_the_launcher_wrote_last(self):
        logs = self.folder / 'logs'
        for code in (3, 7):
            done = subprocess.run([MUSTER, f'--log-dir={logs}', '--nproc-per-node=2', 'sh', '-c',
                                   f'exit {code}'], capture_output=True, stdin=subprocess.DEVNULL)
            self.assertEqual(done.returncode, code, done.stderr)
        shown = ctl('report', '--json', logs)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        newest = max(logs.glob('*/report.json'), key=lambda path: path.stat().st_mtime_ns)
        written = json.loads(newest.read_text())
        self.assertEqual(written, {name: value for name, value in json.loads(shown.stdout).items()
                                   if name in written})
        self.assertIn('7', json.dumps(json.loads(shown.stdout)))
        self.assertEqual(ctl('report', '--json', newest.parent).stdout, shown.stdout)

    def test_report_says_where_there_is_none(self):
        for folder, said in ((self.folder, 'no events.jsonl'), (self.folder / 'none', 'directory')):
            done = ctl('report', folder)
            self.assertEqual((done.returncode, done.stdout), (1, ''))
            self.assertIn(said, done.stderr)


if __name__ == '__main__':
    unittest.main()
