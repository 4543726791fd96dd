#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The wheel from a user's perspective: checked, installed into empty virtual environments, and used
from there without access to the tree. PACKAGES is the folder that scripts/package has filled,
VERSION the version of the tree."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

PACKAGES, VERSION = Path(os.environ['PACKAGES']).resolve(), os.environ['VERSION']
ROOT = Path(__file__).parents[2]
TOOLS = Path(subprocess.run([ROOT / 'scripts/package_env'], text=True, check=True,
                            stdout=subprocess.PIPE).stdout.strip()) / 'bin'
PIP = (TOOLS / 'python', '-m', 'pip')
PROGRAMS = ('muster', 'muster-store', 'musterctl')
BYTES_MAX = 9_000_000
# Debian packages whose licences accompany the statically linked code.
LINKED = ('libasio-dev', 'libc-ares-dev', 'libc6-dev', 'libcli11-dev', 'libfmt-dev',
          'libhttp-parser-dev', 'libspdlog-dev', 'libssl-dev', 'libstdc++-12-dev',
          'libtomlplusplus-dev', 'nlohmann-json3-dev')
# No NumPy: the standard library is sufficient.
SUM = '''
import array, muster
with muster.Communicator.from_env() as comm:
    print(comm.rank, comm.all_reduce(array.array("f", [1.5, comm.rank])).tolist())
'''
# As in README; the launcher comes from the wheel.
LAUNCH = '''
import muster

def train(lr):
    return 2 * lr

if __name__ == "__main__":
    print(muster.launch(train, 0.1, nproc=4))
'''
# Prints which implementation of the backend the group uses.
HALF = '''
import torch.distributed as dist
from muster.torch import compiled
dist.init_process_group("muster")
print("compiled" if compiled.module(dist.get_rank()) else "python")
'''
# Nothing here imports muster.
PYTORCH = '''
import torch, torch.distributed as dist
dist.init_process_group("muster")
tensor = torch.ones(2) + dist.get_rank()
dist.all_reduce(tensor)
print(tensor.tolist())
dist.destroy_process_group()
'''
REPLACED = '''
import site, sys
site.addsitedir(sys.argv[1])  # as if the wheel lay in PyTorch's own environment
import torch.distributed as dist
dist.init_process_group("gloo")
print(type(dist.group.WORLD).__module__)
dist.destroy_process_group()
'''
# Blocks in load(), as training does when a file system hangs.
HANG = '''
import os, muster.worker

def load():
    os.open("part.fifo", os.O_RDONLY)

muster.worker.progress(1)
load()
'''
ENTRY_POINT = '''
from importlib import metadata
groups = metadata.entry_points()
points = groups.select(group=G) if hasattr(groups, "select") else groups.get(G, ())
print([(point.name, point.value) for point in points])
'''


def run(*words, **more):
    """(exit code, stdout, stderr); without variables that would lead back to the tree."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(('MUSTER_', 'PYTHON', 'PIP_', 'VIRTUAL_ENV'))}
    done = subprocess.run(list(map(str, words)), text=True, capture_output=True,
                          timeout=more.pop('timeout', 120),
                          stdin=subprocess.DEVNULL,
                          env={**environment, **more.pop('variables', {})}, **more)
    return done.returncode, done.stdout, done.stderr


def pythons():
    """{version: path} of the available Pythons from 3.9 on."""
    found = {}
    for minor in range(9, 15):
        name = f'python3.{minor}'
        places = [shutil.which(name), *map(str, Path.home().glob(f'.pyenv/versions/*/bin/{name}'))]
        for path in filter(None, places):
            # The Pythons of version managers are scripts that fail unless this version is selected.
            if run(path, '-c', 'import venv, ctypes')[0] == 0:
                found[name] = path
                break
    return found


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        wheels = [path for path in PACKAGES.glob('muster_launch-*.whl')
                  if path.stem.endswith(os.uname().machine)]
        assert len(wheels) == 1, wheels
        cls.wheel = wheels[0]
        cls.folder = Path(tempfile.mkdtemp(prefix='muster-wheel-'))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.home = cls.install(sys.executable, 'used')

    @classmethod
    def install(cls, python, name):
        home = cls.folder / name
        for words in ((python, '-m', 'venv', '--without-pip', home),
                      (*PIP, '--python', home / 'bin/python', 'install',
                       '--no-index', '--find-links', PACKAGES, '--no-compile',
                       'muster-launch')):
            code, out, err = run(*words, cwd=cls.folder)
            assert code == 0, out + err
        return home

    def succeed(self, *words, **more):
        code, out, err = run(*words, cwd=self.folder, **more)
        self.assertEqual(code, 0, (words, out, err))
        return out

    def tool(self, name, *words):
        return self.succeed(TOOLS / name, *words)

    def test_its_name_says_what_it_runs_on_and_auditwheel_agrees(self):
        tag = f'manylinux_2_28_{os.uname().machine}'
        self.assertEqual(self.wheel.name, f'muster_launch-{VERSION}-py3-none-{tag}.whl')
        shown = ' '.join(self.tool('auditwheel', 'show', self.wheel).split())
        given = re.search(r'consistent with the following platform tag: "([^"]*)"', shown)
        self.assertIsNotNone(given, shown)
        newest = re.fullmatch(r'manylinux_2_(\d+)_\w+', given.group(1))
        self.assertLessEqual(int(newest.group(1)), 28, shown)

    def test_an_index_would_take_it(self):
        self.tool('twine', 'check', '--strict', self.wheel,
                  PACKAGES / f'muster_launch-{VERSION}.tar.gz')
        self.assertLessEqual(self.wheel.stat().st_size, BYTES_MAX)

    def test_it_holds_what_belongs_into_it_and_nothing_else(self):
        with zipfile.ZipFile(self.wheel) as opened:
            names = set(opened.namelist())
        info, data = (f'muster_launch-{VERSION}.{kind}' for kind in ('dist-info', 'data'))
        wanted = {f'{info}/licenses/LICENSE', 'muster/py.typed', 'muster/libmuster_collective.so',
                  'muster_jax_cluster.py', 'muster_on_import.py',
                  'muster_torch_flights.py', 'muster_torch_replaces.pth',
                  *(f'{data}/scripts/{program}' for program in PROGRAMS),
                  *(f'{data}/data/share/man/man1/{program}.1' for program in PROGRAMS),
                  *(f'{data}/data/share/bash-completion/completions/{program}'
                    for program in PROGRAMS),
                  *(f'{data}/data/share/zsh/site-functions/_{program}' for program in PROGRAMS),
                  *(f'{info}/licenses/linked/{name}' for name in LINKED)}
        self.assertEqual(wanted - names, set())
        self.assertIn('muster/torch/native/muster/collective.h', names)  # what its source includes
        known = r'muster/[\w/]+\.py|muster/torch/native/[\w/]+\.(cpp|hpp|h)'
        rest = {name for name in names - wanted if not re.fullmatch(known, name)}
        self.assertEqual({Path(name).parts[0] for name in rest}, {info})

    def test_every_program_says_the_version_of_the_tree(self):
        for program in PROGRAMS:
            shown = self.succeed(self.home / 'bin' / program, '--version')
            self.assertEqual(shown.splitlines()[0], f'{program} {VERSION}')
        python = self.home / 'bin/python'
        self.assertEqual(self.succeed(python, '-c', 'import muster; print(muster.__version__)'),
                         f'{VERSION}\n')
        shown = self.succeed(python, '-c', 'import importlib.metadata as m; '
                                           'print(m.version("muster-launch"))')
        self.assertEqual(shown, f'{VERSION}\n')

    def sum_of_two(self, home, muster, **variables):
        script = home / 'sum.py'
        script.write_text(SUM)
        shown = self.succeed(muster, '--nproc-per-node=2', script, variables=variables)
        self.assertEqual(sorted(shown.splitlines()), ['0 [3.0, 1.0]', '1 [3.0, 1.0]'])

    def test_a_job_with_its_environment_active_or_not(self):
        self.sum_of_two(self.home, self.home / 'bin/muster')
        self.sum_of_two(self.home, 'muster', VIRTUAL_ENV=str(self.home),
                        PATH=f'{self.home / "bin"}:{os.environ["PATH"]}')

    def test_a_hang_has_python_stacks_without_another_package(self):
        script = self.home / 'hang.py'
        script.write_text(HANG)
        os.mkfifo(self.home / 'part.fifo')
        code, _, err = run(self.home / 'bin/muster', '--hang-timeout=1', '--on-hang=stop', script,
                           cwd=self.home)
        self.assertEqual(code, 124, err)
        self.assertIn('in load (hang.py:5)', err)

    def test_a_function_as_a_job(self):
        script = self.home / 'launch.py'
        script.write_text(LAUNCH)
        shown = self.succeed(self.home / 'bin/python', script, variables={'PATH': '/nowhere'})
        self.assertEqual(shown, '[0.2, 0.2, 0.2, 0.2]\n')

    def test_the_launcher_as_a_module(self):
        shown = self.succeed(self.home / 'bin/python', '-m', 'muster', '--nproc-per-node=2',
                             'sh', '-c', 'echo $WORLD_SIZE', variables={'PATH': '/usr/bin:/bin'})
        self.assertEqual(shown, '2\n2\n')

    def test_a_job_under_every_python_that_is_here(self):
        found = pythons()
        self.assertGreaterEqual(len(found), 1)
        for name, python in found.items():
            with self.subTest(name):
                home = self.install(python, name)
                shown = self.succeed(home / 'bin/python', '-c',
                                     'import sys; print("python%d.%d" % sys.version_info[:2])')
                self.assertEqual(shown, f'{name}\n')
                self.sum_of_two(home, home / 'bin/muster')
                print(f'    a job under {name}')

    def test_musterctl_asks_a_store(self):
        port = self.folder / 'port'
        server = subprocess.Popen([self.home / 'bin/muster-store', '--port=0',
                                   f'--port-file={port}'])
        try:
            while not port.exists():
                self.assertIsNone(server.poll(), 'muster-store ended early')
            at, ctl = f'localhost:{port.read_text().strip()}', self.home / 'bin/musterctl'
            self.succeed(ctl, 'store', 'set', at, 'key', 'value')
            self.assertEqual(self.succeed(ctl, 'store', 'get', at, 'key'), 'value')
        finally:
            server.terminate()
            self.assertEqual(server.wait(60), 0)

    def test_pytorch_finds_the_back_end_by_its_entry_point(self):
        shown = self.succeed(self.home / 'bin/python', '-c',
                             f'G = "torch.distributed.backends"\n{ENTRY_POINT}')
        self.assertEqual(shown, "[('muster', 'muster.torch:_register')]\n")

    def pytorch(self, name, text, words, variables):
        """The output of two ranks of this program, with PyTorch and the wheel in one
        environment."""
        code, python, _ = run(ROOT / 'scripts/torch_env', '--find')
        if code != 0:
            self.skipTest('there is no current PyTorch - run scripts/torch_env once')
        target, script = self.folder / name, self.folder / f'{name}.py'
        self.succeed(*PIP, 'install', '--no-index', '--no-deps', '--target', target, self.wheel)
        script.write_text(text)
        return self.succeed(target / 'bin/muster', '--nproc-per-node=2', script, *words(target),
                            variables={'PYTHON_EXEC': python.strip(), 'XDG_CACHE_HOME':
                                       str(self.folder / 'cache'), 'MUSTER_TORCH_BUILD': 'never',
                                       **variables(target)})

    def test_pytorch_uses_it_without_an_import(self):
        shown = self.pytorch('entry', PYTORCH, lambda target: [],
                             lambda target: {'PYTHONPATH': str(target)})
        self.assertEqual(shown, '[3.0, 3.0]\n' * 2)

    def test_a_second_wheel_has_compiled_modules_for_pytorch(self):
        pinned = (ROOT / 'tests/torch/requirements.txt').read_text()
        release = re.search(r'^torch==(.*)$', pinned, re.MULTILINE)[1]
        if run(ROOT / 'scripts/torch_env', '--find')[0] != 0:
            self.skipTest('there is no current PyTorch - run scripts/torch_env once')
        folder, extra = self.folder / 'second', self.folder / 'extra'
        folder.mkdir()
        shutil.copy(self.wheel, folder)
        code, out, err = run(ROOT / 'scripts/torch_wheel', folder, release, timeout=280)
        self.assertEqual(code, 0, out + err)
        wheel, = folder.glob('muster_launch_torch-*.whl')
        self.succeed(*PIP, 'install', '--no-index', '--no-deps', '--target', extra, wheel)
        for path, half in ((f':{extra}', 'compiled'), ('', 'python')):
            shown = self.pytorch(f'with {half}', HALF, lambda target: [],
                                 lambda target: {'PYTHONPATH': f'{target}{path}'})  # noqa: B023
            self.assertEqual(shown, f'{half}\n' * 2)

    def test_it_stands_in_for_gloo_without_an_import(self):
        for name, module in (('gloo', 'muster.torch.group'),
                             ('', 'torch.distributed.distributed_c10d')):
            shown = self.pytorch(f'in place of {name}', REPLACED, lambda target: [target],
                                 lambda target: {'MUSTER_TORCH_REPLACES': name})
            self.assertEqual(shown, f'{module}\n' * 2)

    def test_a_library_of_another_version_is_one_clear_error(self):
        """A library as left behind by an upgrade of only the package or only the library."""
        source, library = self.folder / 'other.c', self.folder / 'libmuster_collective.so'
        package = next(self.home.glob('lib/python3*/site-packages/muster'))
        functions = re.findall(r'"(muster_\w+)": \(', (package / '_library.py').read_text())
        self.assertIn('muster_abi_version', functions)
        source.write_text(''.join(f'int {name}(void) {{ return 99; }}\n' for name in functions))
        self.succeed('cc', '-shared', '-fPIC', '-o', library, source)
        code, out, err = run(self.home / 'bin/python', '-c', 'import muster', cwd=self.folder,
                             variables={'MUSTER_COLLECTIVE_LIBRARY': str(library)})
        self.assertEqual((code, out), (1, ''))
        self.assertEqual(err.splitlines()[-1], f'ImportError: muster: {library} has ABI version '
                                               '99, but this package needs 1')

    def test_it_leaves_nothing_behind(self):
        home = self.install(sys.executable, 'left')
        self.succeed(*PIP, '--python', home / 'bin/python', 'uninstall',
                     '--yes', 'muster-launch')
        self.assertEqual([str(path) for path in home.glob('**/*muster*')
                          if '__pycache__' not in path.parts], [])


class SourcePackage(unittest.TestCase):
    """It is not compiled here, because that takes as long as the release; only its files are
    checked."""

    def test_it_holds_every_file_of_the_tree(self):
        listed = subprocess.run(['git', 'ls-files', '--cached', '--others', '--exclude-standard'],
                                cwd=ROOT, text=True, capture_output=True)
        if listed.returncode != 0:
            self.skipTest('not a clone of git')
        package = f'muster_launch-{VERSION}'
        held = subprocess.run(['tar', '--list', '--file', PACKAGES / f'{package}.tar.gz'],
                              text=True, capture_output=True, check=True).stdout.splitlines()
        files = {name.removeprefix(f'{package}/') for name in held}
        wanted = {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}
        self.assertGreater(len(wanted), 500)
        self.assertEqual({name for name in wanted - files if not name.startswith('.ci/')}, set())
        self.assertEqual(files - wanted, {'PKG-INFO'})


if __name__ == '__main__':
    unittest.main(verbosity=2)
