#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs the build into a temporary prefix and uses it like a user: programs, manual pages,
completions, and find_package(muster) from a separate project."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).parent
arguments = None


def run(*args, check=True, **more):
    done = subprocess.run([str(word) for word in args], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **more)
    if check and done.returncode != 0:
        raise AssertionError(f'{args} gave {done.returncode}:\n{done.stdout}')
    return done


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix='muster-package-'))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.prefix = cls.folder / 'prefix'
        run(arguments.cmake, '--install', arguments.build, '--prefix', cls.prefix)

    def only(self, pattern):
        found = list(self.prefix.glob(pattern))
        self.assertEqual(len(found), 1, (pattern, found))
        return found[0]

    def test_the_programs_run_from_where_they_were_installed(self):
        for name in ('muster', 'muster-store', 'musterctl'):
            self.assertIn(name, run(self.prefix / 'bin' / name, '--version').stdout)

    def test_the_manual_pages_format_without_a_warning(self):
        for name, expected in (('muster', '--nproc-per-node'), ('muster-store', '--port-file'),
                            ('musterctl', 'store ping')):
            page = self.only(f'share/man/man1/{name}.1')
            text = page.read_text()
            self.assertIn('.TH', text)
            self.assertIn(expected, text.replace('\\', ''))
            if shutil.which('man'):
                shown = subprocess.run(['man', '--warnings', '-l', page], text=True,
                                       env={**os.environ, 'LC_ALL': 'C.UTF-8', 'MANWIDTH': '80'},
                                       capture_output=True)
                self.assertEqual((shown.returncode, shown.stderr), (0, ''))

    def completed(self, *args):
        """What bash suggests for the last of these arguments."""
        program = args[0]
        file = self.only(f'share/bash-completion/completions/{program}')
        line = ' '.join(args)
        script = (f'source {file}; COMP_WORDS=({line}); '
                  'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); '
                  f'COMP_LINE="{line}"; COMP_POINT=${{#COMP_LINE}}; '
                  f'f=$(complete -p {program} | sed "s/.*-F \\([^ ]*\\).*/\\1/"); '
                  f'$f {program} "{args[-1]}" "{args[-2]}"; printf "%s\\n" "${{COMPREPLY[@]}}"')
        return run('bash', '--norc', '-c', script, cwd=self.prefix).stdout.split()

    def test_the_bash_completions_complete_options_commands_and_files(self):
        self.assertIn('--nproc-per-node', self.completed('muster', '--nproc'))
        self.assertEqual(self.completed('muster-store', '--po'), ['--port', '--port-file'])
        self.assertEqual(self.completed('muster-store', '--port-file', 'sh'), ['share'])
        self.assertEqual(self.completed('muster-store', '--bind', 'sh'), [])
        self.assertEqual(self.completed('musterctl', 're'), ['report', 'resolve'])
        self.assertEqual(self.completed('musterctl', 'store', 'ad'), ['add'])
        self.assertEqual(self.completed('musterctl', 'report', 'sh'), ['share'])

    def test_the_zsh_completions_are_sound(self):
        for program in ('muster', 'muster-store', 'musterctl'):
            file = self.only(f'share/zsh/site-functions/_{program}')
            self.assertTrue(file.read_text().startswith(f'#compdef {program}\n'))
            run('zsh', '-f', '-n', file)

    def configure(self, source, build, *args, **more):
        return run(arguments.cmake, '-G', 'Ninja', '-S', source, '-B', build,
                   f'-DCMAKE_PREFIX_PATH={self.prefix}',
                   f'-DCMAKE_CXX_COMPILER={arguments.compiler}',
                   f'-DCMAKE_CXX_FLAGS={os.environ.get("CONSUMER_FLAGS", "")}', *args, **more)

    def build_consumer(self, wanted, *args, **more):
        build = self.folder / f'consumer-{wanted}'
        return build, self.configure(HERE / 'consumer', build, f'-Dwanted={wanted}', *args, **more)

    def example_of(self, readme):
        """A file with the exact code from a room's README. No other test checks that it
        compiles."""
        text = (HERE.parents[1] / 'lib' / readme).read_text()
        example = self.folder / 'example.cpp'
        example.write_text(re.search(r'(?ms)^```cpp\n(.*?)^```', text).group(1))
        return example

    def test_a_project_of_somebody_else_finds_and_uses_it(self):
        build, _ = self.build_consumer('0.1', f'-Dshown={self.example_of("collective/README.md")}')
        run(arguments.cmake, '--build', build)
        port_file = self.folder / 'port'
        server = subprocess.Popen([self.prefix / 'bin/muster-store', '--port', '0', '--port-file',
                                   port_file])
        try:
            while not port_file.exists():
                self.assertIsNone(server.poll(), 'muster-store ended early')
            port = port_file.read_text().strip()
            self.assertEqual(run(build / 'consumer', port).stdout, 'consumer\n')
            alone = {**os.environ, 'RANK': '0', 'WORLD_SIZE': '1'}
            self.assertEqual(run(build / 'sum', env=alone).stdout, '1 rank, 5\n')
            run(self.prefix / 'bin/muster', '--nproc-per-node=2', build / 'shown')
            nowhere = {**os.environ, 'RANK': '0', 'WORLD_SIZE': 'x'}
            refused = run(build / 'shown', env=nowhere, check=False)
            self.assertEqual(refused.returncode, 1)
            self.assertIn("WORLD_SIZE='x' is not an integer", refused.stdout)
            ctl = self.prefix / 'bin/musterctl'
            got = run(ctl, 'store', 'get', f'localhost:{port}', 'from').stdout
            self.assertEqual(got, 'consumer')
        finally:
            server.terminate()
            self.assertEqual(server.wait(), 0)

    def succeeds_alone(self, program):
        alone = {**os.environ, 'RANK': '0', 'WORLD_SIZE': '1',
                 'LD_LIBRARY_PATH': str(self.library().parent)}
        self.assertEqual(run(program, env=alone).stdout, '1 rank, 5\n')

    def library(self):
        return self.only('lib*/**/libmuster_collective.so')

    def compile_sum(self, compiler, standard, *flags):
        out = self.folder / f'sum-{Path(compiler).name}-{standard}'
        run(compiler, f'-std=c++{standard}', *flags, HERE / 'consumer/sum.cpp',
            f'-I{self.prefix}/include', f'-L{self.library().parent}', '-lmuster_collective', '-o',
            out)
        self.succeeds_alone(out)

    def test_the_headers_compile_as_c_plus_plus_17_20_and_23(self):
        flags = os.environ.get('CONSUMER_FLAGS', '').split()
        strict = ['-Wall', '-Wextra', '-Wpedantic', '-Wshadow', '-Wconversion', '-Werror', *flags]
        # The sanitizers of two compilers are incompatible.
        others = [] if any('sanitize' in flag for flag in flags) else ['clang++-19']
        for compiler in [arguments.compiler, *others]:
            for standard in (17, 20, 23):
                with self.subTest(compiler=compiler, standard=standard):
                    self.compile_sum(compiler, standard, *strict)

    def test_the_headers_compile_as_cuda(self):
        nvcc = shutil.which('nvcc') or '/usr/local/cuda/bin/nvcc'
        if not os.path.exists(nvcc):
            self.skipTest('there is no nvcc here')
        if 'sanitize' in os.environ.get('CONSUMER_FLAGS', ''):
            self.skipTest('nvcc knows no sanitizers')
        for standard in (17, 20):
            self.compile_sum(nvcc, standard, '-x', 'cu')
        build = self.folder / 'cuda-build'
        self.configure(HERE.parents[1] / 'examples/cuda', build, f'-DCMAKE_CUDA_COMPILER={nvcc}')
        run(arguments.cmake, '--build', build)

    def test_pkg_config_knows_the_library(self):
        env = {**os.environ, 'PKG_CONFIG_PATH': str(self.only('lib*/**/muster.pc').parent)}
        words = run('pkg-config', '--cflags', '--libs', 'muster', env=env).stdout.split()
        out = self.folder / 'sum-pkg-config'
        flags = os.environ.get('CONSUMER_FLAGS', '').split()
        run(arguments.compiler, '-std=c++17', *flags, HERE / 'consumer/sum.cpp', *words, '-o', out)
        self.succeeds_alone(out)

    def test_all_public_headers_are_installed_and_nothing_else(self):
        names = {str(path.relative_to(self.prefix / 'include'))
                 for path in (self.prefix / 'include').rglob('*') if path.is_file()}
        tree = HERE.parents[1] / 'lib/muster'
        self.assertEqual(names, {f'muster/{path.name}' for path in tree.glob('*.h*')})

    def test_only_the_c_interface_is_exported_with_its_version(self):
        shown = run('nm', '-D', '--defined-only', self.library()).stdout.split('\n')
        words = [line.split() for line in shown if line]
        names = [name for *_, kind, name in words if kind.isupper()]  # others are local
        self.assertIn('muster_run@@MUSTER_1', names)
        self.assertEqual([name for name in names
                          if not re.fullmatch(r'muster_\w+@@MUSTER_1|MUSTER_1', name)], [])

    def test_the_example_in_c_plus_plus_builds_without_the_rest_of_this_tree(self):
        folder = self.folder / 'examples'
        for part in ('digits', 'data'):
            shutil.copytree(HERE.parents[1] / 'examples' / part, folder / part)
        build = self.folder / 'digits-build'
        self.configure(folder / 'digits', build)
        run(arguments.cmake, '--build', build)
        shown = run(self.prefix / 'bin/muster', '--nproc-per-node=2', build / 'muster-digits',
                    '--epochs=3').stdout
        self.assertRegex(shown, r'(?s)^2 workers, .*\nepoch  3: .*\nmodel [0-9a-f]{16}\n$')

    def test_another_minor_version_is_refused(self):
        _, configured = self.build_consumer('0.2', check=False)
        self.assertNotEqual(configured.returncode, 0)
        self.assertIn('version', configured.stdout)

    def packages(self):
        return self.only('lib/python3*/dist-packages/muster').parent

    def test_debians_python_looks_where_the_package_is_installed(self):
        """Under /usr/local, CMake's default prefix: the same folder there is in sys.path."""
        folder = Path('/usr/local') / self.packages().relative_to(self.prefix)
        shown = run('/usr/bin/python3', '-c', 'import site; print(site.getsitepackages())').stdout
        if 'dist-packages' not in shown:
            self.skipTest('not the python3 of Debian')
        self.assertIn(f"'{folder}'", shown)

    def python(self, text, **more):
        """A Python that sees the installed package and nothing else of this tree."""
        packages = self.packages()
        variables = {name: value for name, value in os.environ.items()
                     if not name.startswith('MUSTER_')}
        return run(sys.executable, '-B', '-c', text, cwd=self.folder,
                   env={**variables, 'PYTHONPATH': str(packages)}, **more).stdout

    def test_the_python_package_finds_the_library_of_its_prefix(self):
        shown = self.python('import muster, muster._library as l; print(muster.__file__, l.PATH)')
        for path in shown.split():
            self.assertTrue(path.startswith(f'{self.prefix}/'), shown)
        self.assertEqual(self.python(
            'import array, muster\n'
            'with muster.Communicator.create(None, 0, 1) as comm:\n'
            '    print(comm.all_reduce(array.array("f", [1.5]))[0], comm.size)'), '1.5 1\n')

    def test_the_python_package_is_whole(self):
        source = HERE.parents[1] / 'lib/python'
        installed = self.packages()
        files = sorted(path.relative_to(source) for path in source.glob('muster/**/*.py'))
        self.assertGreater(len(files), 10)
        for file in files:
            self.assertEqual((installed / file).read_text(), (source / file).read_text())
        self.assertTrue((installed / 'muster/py.typed').exists())  # else mypy ignores its types
        self.assertEqual([], list(installed.glob('**/*.pyc')))


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--build', required=True)
    parser.add_argument('--cmake', default='cmake')
    parser.add_argument('--compiler', default='c++')
    arguments, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest)
