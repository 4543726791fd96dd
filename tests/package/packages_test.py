#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The .deb, the .rpm and the .tar.gz for this machine: each is unpacked or installed into an empty
folder, and its programs run with that folder as their root. PACKAGES is the folder that
scripts/package has filled, VERSION the version of the tree."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PACKAGES, VERSION = Path(os.environ['PACKAGES']).resolve(), os.environ['VERSION']
MACHINE = os.uname().machine
DEBIAN = {'x86_64': 'amd64', 'aarch64': 'arm64'}[MACHINE]
PROGRAMS = ('muster', 'muster-store', 'musterctl')
AS_ROOT = [] if os.getuid() == 0 else ['unshare', '--user', '--map-root-user']


class Packages(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp(prefix='muster-root-'))
        self.addCleanup(shutil.rmtree, self.root)

    def run_command(self, *words, **more):
        done = subprocess.run(list(map(str, words)), text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=240,
                              **more)
        self.assertEqual(done.returncode, 0, f'{words}:\n{done.stdout}')
        return done.stdout

    def inside(self, *words):
        return self.run_command(*AS_ROOT, 'chroot', self.root, *words, env={'PATH': '/usr/sbin'})

    def check_programs(self, folder):
        """Runs them in a folder with only the package: no shell, no C library and no /proc."""
        for program in PROGRAMS:
            shown = self.inside(f'{folder}/{program}', '--version')
            self.assertEqual(shown.splitlines()[0], f'{program} {VERSION}')
        job = self.inside(f'{folder}/muster', '--nproc-per-node=2', f'{folder}/musterctl',
                          '--version')
        self.assertEqual(job, f'musterctl {VERSION}\n' * 2)

    def check_python(self, packages):
        """The installed modules load the library that was installed with them."""
        shown = self.run_command(
            sys.executable, '-B', '-c', 'import muster, muster._library as l\n'
            'print(muster.__file__, l.PATH, muster.__version__)', cwd=self.root,
            env={'PYTHONPATH': str(packages), 'PATH': os.environ['PATH']})
        module, library, version = shown.split()
        self.assertEqual(module, str(packages / 'muster/__init__.py'))
        self.assertEqual(library, str(
            self.root / f'usr/lib/{MACHINE}-linux-gnu/libmuster_collective.so.1'))
        self.assertEqual(version, VERSION)

    def check_pages(self, share):
        for program in PROGRAMS:
            self.assertTrue((share / f'man/man1/{program}.1.gz').is_file())
            self.assertTrue((share / f'bash-completion/completions/{program}').is_file())
        self.assertTrue((share / 'doc/muster/linked/libfmt-dev').is_file())

    def test_the_deb(self):
        deb = PACKAGES / f'muster_{VERSION}-1_{DEBIAN}.deb'
        shown = self.run_command('lintian', '--allow-root', '--fail-on', 'error', deb)
        self.assertNotIn('E: ', shown)
        self.assertEqual(self.run_command('dpkg-deb', '--field', deb, 'Recommends').strip(),
                         'elfutils, py-spy')
        admin = self.root / 'var/lib/dpkg'
        admin.mkdir(parents=True)
        (admin / 'status').touch()
        dpkg = (*AS_ROOT, 'dpkg', f'--root={self.root}', '--force-depends', '--log=/dev/null')
        self.run_command(*dpkg, '--install', deb)
        self.check_programs('/usr/bin')
        self.check_pages(self.root / 'usr/share')
        self.check_python(self.root / 'usr/lib/python3/dist-packages')
        self.run_command(*dpkg, '--purge', 'muster')
        self.assertEqual([path for path in self.root.glob('usr/**/*') if path.is_file()], [])

    def test_the_rpm(self):
        rpm = PACKAGES / f'muster-{VERSION}-1.{MACHINE}.rpm'
        needed = self.run_command('rpm', '--query', '--package', '--requires', rpm)
        self.assertIn('libc.so.6(GLIBC_', needed)  # for the library; the programs need nothing
        self.assertNotIn('libstdc++', needed)
        wanted = self.run_command('rpm', '--query', '--package', '--recommends', rpm)
        self.assertEqual(wanted.split(), ['elfutils', 'py-spy'])
        taken = self.run_command('rpm', '--query', '--package', '--list', rpm).splitlines()
        self.assertNotIn('/usr/bin', taken)  # the package does not own system folders
        self.run_command('sh', '-c', 'rpm2cpio "$1" | cpio -id --quiet', 'sh', rpm, cwd=self.root)
        self.check_programs('/usr/bin')
        self.check_pages(self.root / 'usr/share')
        self.assertTrue((self.root / 'usr/lib64/libmuster_collective.so.1').is_file())

    def test_the_tar(self):
        name = f'muster-{VERSION}-linux-{MACHINE}'
        self.run_command('tar', '-xzf', PACKAGES / f'{name}.tar.gz', '-C', self.root)
        folder = self.root / name
        self.run_command('sha256sum', '--check', '--strict', 'SHA256SUMS', cwd=folder)
        self.assertEqual((folder / 'README').read_text().count('\n'), 3)
        self.check_programs(f'/{name}/bin')

    def test_the_sums(self):
        shown = self.run_command('sha256sum', '--check', '--strict', 'SHA256SUMS', cwd=PACKAGES)
        summed = {line.rpartition(': ')[0] for line in shown.splitlines()}
        self.assertEqual(summed, {path.name for path in PACKAGES.iterdir()} - {'SHA256SUMS'})


if __name__ == '__main__':
    unittest.main(verbosity=2)
