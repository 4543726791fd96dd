#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each release program is one static file: it needs no shared library, never calls getaddrinfo, and
works in a folder (chroot) that contains only the program."""
import os
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

PROGRAMS = {name: os.environ[name] for name in ('MUSTER', 'STORE', 'CTL')}
WORKER = r'''
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char** argv) {
  printf("rank %s of %s\n", getenv("RANK"), getenv("WORLD_SIZE"));
  fflush(stdout);
  if (argc > 1) fprintf(stderr, "worker output\n");
  return argc > 1 && strcmp(getenv("RANK"), "1") == 0 ? atoi(argv[1]) : 0;
}
'''


def read(*args):
    return subprocess.run(args, text=True, check=True, stdout=subprocess.PIPE).stdout


class Files(unittest.TestCase):
    def test_no_program_needs_a_shared_library(self):
        for path in PROGRAMS.values():
            self.assertNotIn('INTERP', read('readelf', '-lW', path))
            self.assertNotIn('NEEDED', read('readelf', '-dW', path))

    def test_no_program_holds_a_resolver_of_the_c_library(self):
        for path in PROGRAMS.values():
            names = {line.split()[-1] for line in read('nm', path).splitlines() if line.strip()}
            self.assertIn('main', names, 'stripped: this test would see nothing')
            found = {name for name in names
                     if name.split('@')[0] in ('getaddrinfo', 'gethostbyname', 'getnameinfo',
                                               'gethostbyname_r', 'gethostbyaddr', 'getpwnam')}
            self.assertEqual(found, set(), path)


class Chroot(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp(prefix='muster-chroot-'))
        self.addCleanup(shutil.rmtree, self.root)
        for name, path in PROGRAMS.items():
            shutil.copy(path, self.root / name.lower())
        source = self.root / 'worker.c'
        source.write_text(WORKER)
        subprocess.run(['cc', '-static', '-o', self.root / 'worker', source], check=True)
        source.unlink()

    def command(self, *args):
        # With a user namespace an ordinary user can do it, too.
        how = ['unshare', '--user', '--map-root-user'] if os.getuid() else []
        return [*how, 'chroot', str(self.root), *args]

    def run_inside(self, *args):
        return subprocess.run(self.command(*args), text=True, timeout=60, capture_output=True,
                              stdin=subprocess.DEVNULL, env={'PATH': os.environ['PATH']})

    def test_help_and_version(self):
        for name in ('muster', 'store', 'ctl'):
            for option in ('--help', '--version'):
                done = self.run_inside('/' + name, option)
                self.assertEqual((done.returncode, done.stderr), (0, ''))
                self.assertIn('muster', done.stdout)

    def test_a_launch(self):
        done = self.run_inside('/muster', '--nproc-per-node=2', '/worker')
        self.assertEqual((done.returncode, done.stderr), (0, ''))
        self.assertEqual(sorted(done.stdout.splitlines()), ['rank 0 of 2', 'rank 1 of 2'])

    def test_a_launch_that_fails(self):
        done = self.run_inside('/muster', '--nproc-per-node=2', '/worker', '7')
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertIn('exited with code 7', done.stderr)
        self.assertIn('worker output', done.stderr)

    def test_a_store_dialled_by_a_name_of_the_hosts_file(self):
        (self.root / 'etc').mkdir()
        (self.root / 'etc/hosts').write_text('127.0.0.1 storage.example storage\n')
        # A module that does not exist, as a target machine's configuration may contain one.
        (self.root / 'etc/nsswitch.conf').write_text('hosts: nosuchmodule [NOTFOUND=return]\n')
        server = subprocess.Popen(self.command('/store', '--port', '0', '--port-file', '/port'))
        try:
            while not (self.root / 'port').exists():
                self.assertIsNone(server.poll(), 'the store ended early')
            endpoint = 'storage:' + (self.root / 'port').read_text().strip()
            done = self.run_inside('/ctl', 'store', 'set', endpoint, 'key', 'value')
            self.assertEqual((done.returncode, done.stderr), (0, ''))
            done = self.run_inside('/ctl', 'store', 'get', endpoint, 'key')
            self.assertEqual((done.returncode, done.stdout), (0, 'value'))
        finally:
            server.send_signal(signal.SIGTERM)
            self.assertEqual(server.wait(60), 0)
        done = self.run_inside('/ctl', 'resolve', 'storage.example')
        self.assertEqual(done.stdout, '127.0.0.1\n')


if __name__ == '__main__':
    unittest.main()
