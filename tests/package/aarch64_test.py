#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The packages for arm64, on another architecture: their contents, and the parts that run under
qemu-aarch64-static. Not part of scripts/test, because building for arm64 takes minutes:

    scripts/package DIR && PACKAGES=DIR python3 tests/package/aarch64_test.py

Not covered: arm64 workers under muster (this machine's kernel cannot execute them, so the workers
below are native), an arm64 Python, speed, and the memory ordering of real arm64 CPUs."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = Path(os.environ['PACKAGES']).resolve()
VERSION = re.search(r'project\(muster VERSION (\S+) ', (ROOT / 'CMakeLists.txt').read_text())[1]
PROGRAMS = ('muster', 'muster-store', 'musterctl')
QEMU = ('qemu-aarch64-static', '-L', '/usr/aarch64-linux-gnu')
BYTES_MAX = 8_000_000
# Sums 1 + rank over all ranks, through the C interface of the wheel's library.
SUM = r'''
#include "muster/collective.h"
#include <stdio.h>
int main(void) {
  muster_comm* comm = 0;
  char text[200] = "";
  float value = 1;
  if (muster_comm_from_env(0, &comm) == 0) {
    value += (float)muster_comm_rank(comm);
    muster_buffer buffer = {&value, 1, MUSTER_F32, MUSTER_HOST};
    muster_call call = {.size = sizeof call, .kind = MUSTER_ALL_REDUCE, .in = buffer,
                        .out = buffer};
    if (muster_run(comm, &call, 0) == 0) {
      printf("%g\n", value);
      muster_comm_destroy(comm);
      return 0;
    }
  }
  muster_last_error_text(text, sizeof text);
  puts(text);
  return 1;
}
'''


class Aarch64(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix='muster-aarch64-'))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        tag = 'manylinux_2_28_aarch64'
        cls.wheel = PACKAGES / f'muster_launch-{VERSION}-py3-none-{tag}.whl'
        subprocess.run(['cmake', '-E', 'tar', 'x', cls.wheel], cwd=cls.folder, check=True)
        cls.programs = cls.folder / f'muster_launch-{VERSION}.data/scripts'
        cls.library = cls.folder / 'muster/libmuster_collective.so'

    def succeed(self, *words, **more):
        done = subprocess.run(list(map(str, words)), text=True, capture_output=True, timeout=120,
                              stdin=subprocess.DEVNULL, **{'cwd': self.folder, **more})
        self.assertEqual(done.returncode, 0, (words, done.stdout, done.stderr))
        return done.stdout

    def emulated(self, program, *words):
        return self.succeed(*QEMU, self.programs / program, *words)

    def test_every_binary_is_of_arm64_and_the_programs_are_static(self):
        for path in (self.library, *map(self.programs.joinpath, PROGRAMS)):
            self.assertRegex(self.succeed('readelf', '-h', path), r'Machine: +AArch64')
        for program in PROGRAMS:
            shown = self.succeed('readelf', '-lW', '-dW', self.programs / program)
            self.assertNotRegex(shown, 'INTERP|NEEDED')

    def test_the_library_needs_glibc_2_28_at_most(self):
        tools = self.succeed(ROOT / 'scripts/package_env').strip()
        shown = ' '.join(self.succeed(f'{tools}/bin/auditwheel', 'show', self.wheel).split())
        given = re.search(r'following platform tag: "manylinux_2_(\d+)_aarch64"', shown)
        self.assertIsNotNone(given, shown)
        self.assertLessEqual(int(given[1]), 28)
        self.assertLessEqual(self.wheel.stat().st_size, BYTES_MAX)

    def test_every_program_says_its_version(self):
        for program in PROGRAMS:
            self.assertEqual(self.emulated(program, '--version').splitlines()[0],
                             f'{program} {VERSION}')

    def test_a_job(self):
        shown = self.emulated('muster', '--nproc-per-node=2', 'sh', '-c',
                              'echo rank $RANK of $WORLD_SIZE')
        self.assertEqual(sorted(shown.splitlines()), ['rank 0 of 2', 'rank 1 of 2'])

    def test_a_store(self):
        port = self.folder / 'port'
        server = subprocess.Popen([*QEMU, self.programs / 'muster-store', '--port=0',
                                   f'--port-file={port}'])
        try:
            while not port.exists():
                self.assertIsNone(server.poll(), 'muster-store ended early')
            at = f'127.0.0.1:{port.read_text().strip()}'
            self.emulated('musterctl', 'store', 'set', at, 'key', 'value')
            self.assertEqual(self.emulated('musterctl', 'store', 'get', at, 'key'), 'value')
        finally:
            server.terminate()
            self.assertEqual(server.wait(60), 0)

    def test_ranks_of_arm64_sum(self):
        """qemu is what muster starts: the kernel would not start the ranks themselves."""
        source, program = self.folder / 'sum.c', self.folder / 'sum'
        (self.library.parent / 'libmuster_collective.so.1').symlink_to(self.library)
        source.write_text(SUM)
        self.succeed('aarch64-linux-gnu-gcc-12', '-I', ROOT / 'lib', '-o', program, source,
                     self.library, f'-Wl,-rpath,{self.library.parent}')
        shown = self.emulated('muster', '--nproc-per-node=2', *QEMU, program)
        self.assertEqual(shown, '3\n3\n')

    def test_the_other_packages_are_of_arm64(self):
        deb = PACKAGES / f'muster_{VERSION}-1_arm64.deb'
        self.assertEqual(self.succeed('dpkg-deb', '--field', deb, 'Architecture'), 'arm64\n')
        self.succeed('lintian', '--allow-root', '--fail-on', 'error', deb)
        self.succeed('dpkg-deb', '--extract', deb, 'deb')
        rpm = PACKAGES / f'muster-{VERSION}-1.aarch64.rpm'
        self.assertEqual(self.succeed('rpm', '-qp', '--queryformat', '%{ARCH}', rpm), 'aarch64')
        self.succeed('sh', '-c', 'mkdir rpm && cd rpm && rpm2cpio "$1" | cpio -id --quiet', 'sh',
                     rpm)
        name = f'muster-{VERSION}-linux-aarch64'
        self.succeed('tar', '-xzf', PACKAGES / f'{name}.tar.gz')
        self.succeed('sha256sum', '--check', '--strict', 'SHA256SUMS', cwd=self.folder / name)
        for place in ('deb/usr/bin', 'rpm/usr/bin', f'{name}/bin'):
            shown = self.succeed(*QEMU, self.folder / place / 'muster', '--version')
            self.assertEqual(shown.splitlines()[0], f'muster {VERSION}')


if __name__ == '__main__':
    unittest.main(verbosity=2)
