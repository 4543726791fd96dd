#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The source package: built by pip in isolation, and used. PACKAGES is the folder that
scripts/package has filled, VERSION the version of the tree."""
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

PACKAGES, VERSION = Path(os.environ['PACKAGES']).resolve(), os.environ['VERSION']
ROOT = Path(__file__).parents[2]
BUILD_S, USE_S = 1500, 120  # without ccache, a compiler needs minutes
SUM = '''
import array, muster
with muster.Communicator.from_env() as comm:
    print(comm.rank, comm.all_reduce(array.array("f", [1.5, comm.rank])).tolist())
'''


def run(*words, timeout=USE_S, **variables):
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(('MUSTER_', 'PYTHON', 'PIP_', 'VIRTUAL_ENV'))}
    done = subprocess.run(list(map(str, words)), text=True, timeout=timeout,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env={**environment, **variables})
    assert done.returncode == 0, f'{words}\n{done.stdout}'
    return done.stdout


class SourcePackage(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix='muster-sdist-'))
        self.addCleanup(shutil.rmtree, self.folder)

    def build(self, tools):
        """Builds the wheel. The tree is at the same depth as a checkout with its build folder, so
        that ccache, if installed, recognizes the files."""
        with tarfile.open(PACKAGES / f'muster_launch-{VERSION}.tar.gz') as packed:
            packed.extractall(self.folder)
        source = self.folder / f'muster_launch-{VERSION}'
        run(tools / 'python', '-m', 'pip', 'wheel', '--no-index', '--no-deps',
            '--no-build-isolation', f'--config-settings=build-dir={source / "build"}',
            '--wheel-dir', self.folder, source, timeout=BUILD_S, CCACHE_BASEDIR=str(source),
            PATH=f'{tools}:{os.environ["PATH"]}')
        wheel, = self.folder.glob('*.whl')
        return wheel

    def test_it_builds_where_a_compiler_is(self):
        tools = Path(run(ROOT / 'scripts/package_env').strip()) / 'bin'
        wheel, home = self.build(tools), self.folder / 'home'
        run(sys.executable, '-m', 'venv', '--without-pip', home)
        run(tools / 'python', '-m', 'pip', '--python', home / 'bin/python', 'install', '--no-index',
            '--no-deps', wheel)
        self.assertIn(f'muster {VERSION}\n', run(home / 'bin/muster', '--version'))
        script = self.folder / 'sum.py'
        script.write_text(SUM)
        shown = run(home / 'bin/muster', '--nproc-per-node=2', script)
        self.assertEqual(sorted(shown.splitlines()), ['0 [3.0, 1.0]', '1 [3.0, 1.0]'])


if __name__ == '__main__':
    unittest.main()
