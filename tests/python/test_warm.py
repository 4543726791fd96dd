# SPDX-License-Identifier: Apache-2.0
"""--warm with NumPy and with modules of several kinds: random numbers, the program's own modules,
modules that change between attempts, modules that do not exist."""
import os
import pathlib
import subprocess
import textwrap
import unittest
import zipfile

from support import DEADLINE, MUSTER, cases, environment

COLD = "workers are started cold: "


class Ended:
    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        self.lines = sorted(done.stdout.splitlines())

    def __str__(self):
        return f"code {self.code}\n{self.out}---\n{self.err}"


class WarmCase(cases.FolderCase):
    maxDiff = None

    def setUp(self):
        super().setUp()
        self.site = self.folder / "site"
        self.site.mkdir()
        others = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        self.path = [str(self.site), *filter(None, others)]

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def run_job(self, *words, **more):
        variables = environment(PYTHONPATH=os.pathsep.join(self.path),
                                XDG_CACHE_HOME=str(self.folder / "cache"), **more)
        return Ended(subprocess.run([MUSTER, *map(str, words)], env=variables, text=True,
                                    cwd=self.folder, stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    timeout=DEADLINE))

    def warm(self, program, *options, nproc=2, modules="auto"):
        script = self.write("program/script.py", program)
        return self.run_job(f"--warm={modules}", f"--nproc-per-node={nproc}", *options, script)

    def assert_cold(self, ended, why):
        self.assertEqual(ended.err.count(COLD), 1, ended)
        self.assertIn(why, ended.err)

    def assert_warm(self, ended):
        self.assertNotIn(COLD, ended.err, ended)
        self.assertEqual(ended.code, 0, ended)


class RandomNumbers(WarmCase):
    """Random values of an imported module: different in each worker if they are after a cold
    start."""

    def numbers(self, module, expression):
        """What three ranks print of `made` in a module with this text."""
        self.write("site/made.py", module)
        return self.warm(f"import made\nprint({expression})\n", nproc=3)

    def assert_differ(self, ended):
        self.assertEqual(len(set(ended.lines)), 3, ended)

    def assert_equal(self, ended, value):
        self.assert_warm(ended)
        self.assertEqual(ended.lines, [str(value)] * 3, ended)

    def test_generators_of_random(self):
        """They are seeded again, whatever kind of generator, and the workers are warm."""
        for made, call in (("random.Random()", "random()"), ("R()", "getrandbits(64)"),
                           ("random.SystemRandom()", "random()"),
                           ("random.Random(3)", "seed() or made.R.random()")):
            with self.subTest(made):
                ended = self.numbers("import random\n"
                                     "class R(random.Random): pass\n"
                                     f"R = {made}\n", f"made.R.{call}")
                self.assert_warm(ended)
                self.assert_differ(ended)

    def test_generators_that_a_module_has_seeded(self):
        import random
        value = random.Random(3).random()
        state = "random.Random(3).getstate()"
        for seeded in ("R = random.Random(3)", "R = random.Random(); R.seed(3)",
                       f"R = random.Random(); R.setstate({state})", "R = random; random.seed(3)",
                       f"R = random; random.setstate({state})",
                       "from random import seed; R = random; seed(3)"):
            with self.subTest(seeded):
                self.assert_equal(self.numbers(f"import random\n{seeded}\n", "made.R.random()"),
                                  value)

    def test_numbers_that_a_module_draws(self):
        for drawn in ("random.randrange(2 ** 32)", "random.random()", "random.Random().random()",
                      "random.gauss(0, 1)", "secrets.randbits(64)", "secrets.token_hex()",
                      "int.from_bytes(os.urandom(4), 'little')", "list(os.getrandom(8))",
                      "random.sample(range(1000000), 3)", "random.SystemRandom().random()"):
            with self.subTest(drawn):
                ended = self.numbers(f"import os, random, secrets\nSEED = {drawn}\n", "made.SEED")
                self.assert_differ(ended)
                self.assert_cold(ended, "importing made has drawn random numbers (in ")

    def test_numbers_that_a_module_draws_from_its_own_seed(self):
        import random
        for drawn in ("random.Random(3).random()", "random.seed(3) or random.random()"):
            with self.subTest(drawn):
                self.assert_equal(self.numbers(f"import random\nX = {drawn}\n", "made.X"),
                                  random.Random(3).random())

    def test_identifiers(self):
        """A uuid is generated again, wherever modules keep it."""
        self.write("site/other.py", "from made import ID, TEXT\n")
        ended = self.numbers("import uuid\n"
                             "ID = uuid.uuid4()\nTEXT = 'run-%s' % ID.hex\n"
                             "import other\n",
                             "made.ID, made.ID == made.other.ID, "
                             "made.TEXT == made.other.TEXT == 'run-' + made.ID.hex")
        self.assert_warm(ended)
        self.assert_differ(ended)
        self.assertEqual(ended.out.count("True True"), 3, ended)

    def test_a_name_for_a_temporary_file(self):
        ended = self.numbers("import tempfile\ntempfile.gettempdir()\n",
                             "next(made.tempfile._get_candidate_names())")
        self.assert_warm(ended)
        self.assert_differ(ended)

    def test_generators_of_numpy(self):
        for made in ("default_rng()", "RandomState()", "Generator(numpy.random.PCG64())",
                     "default_rng(numpy.random.SeedSequence())"):
            with self.subTest(made):
                ended = self.numbers(f"import numpy.random\nR = numpy.random.{made}\n",
                                     "made.R.integers(2 ** 60) if hasattr(made.R, 'integers') "
                                     "else made.R.rand()")
                self.assert_differ(ended)
                self.assert_cold(ended, "importing made has drawn random numbers (in ")

    def test_numpys_own_generator(self):
        ended = self.numbers("import numpy\n", "made.numpy.random.rand()")
        self.assert_warm(ended)
        self.assert_differ(ended)
        for used in ("X = numpy.random.rand()", "numpy.random.seed()"):
            with self.subTest(used):
                ended = self.numbers(f"import numpy\n{used}\n",
                                     "getattr(made, 'X', made.numpy.random.rand())")
                self.assert_differ(ended)
                self.assertIn(COLD, ended.err)

    def test_generators_of_numpy_that_a_module_has_seeded(self):
        import numpy
        value = numpy.random.RandomState(3).rand()
        ended = self.numbers("import numpy\nnumpy.random.seed(3)\n",
                             "float(made.numpy.random.rand())")
        self.assert_equal(ended, float(value))
        # NumPy seeds it twice, and the first time with random bytes, so the workers may be cold.
        ended = self.numbers("import numpy\nR = numpy.random.RandomState(3)\n",
                             "float(made.R.rand())")
        self.assertEqual(ended.lines, [str(float(value))] * 3, ended)
        ended = self.numbers("import numpy\nR = numpy.random.default_rng(3)\n",
                             "float(made.R.random())")
        self.assert_equal(ended, float(numpy.random.default_rng(3).random()))


class OwnModules(WarmCase):
    """Modules next to the program are the user's, however they are imported."""

    USED = "import used, os\nprint(used.V)\n"

    def test_an_installed_module_of_the_same_name(self):
        self.write("site/used.py", "import names\nV = names.V\n")
        self.write("site/names.py", "V = 'installed'\n")
        self.write("program/names.py", "V = 'own'\n")
        ended = self.warm(self.USED)
        self.assertEqual(ended.lines, ["own"] * 2, ended)
        self.assert_cold(ended, "importing used needs names, which is in the program's directory")

    def test_a_module_that_need_not_be_there(self):
        for error in ("ImportError", "Exception", "BaseException"):
            with self.subTest(error):
                self.write("site/used.py", f"try:\n    import names\n    V = names.V\n"
                                           f"except {error}:\n    V = 'none'\n")
                (self.folder / "program/names.py").unlink(missing_ok=True)
                ended = self.warm(self.USED)
                self.assert_warm(ended)
                self.assertEqual(ended.lines, ["none"] * 2, ended)
                self.write("program/names.py", "V = 'own'\n")
                ended = self.warm(self.USED)
                self.assertEqual(ended.lines, ["own"] * 2, ended)
                self.assert_cold(ended, "importing used needs names")

    def test_it_is_not_run_ahead(self):
        self.write("site/used.py", "import names\nV = names.V\n")
        self.write("program/names.py", "print('run', __name__)\nV = 'own'\n")
        for modules in ("auto", "used", "names,used"):
            ended = self.warm(self.USED, modules=modules)
            self.assertEqual(ended.out.count("run names"), 2, ended)
        ended = self.warm("import names\n", modules="names")
        self.assert_warm(ended)
        self.assertEqual(ended.out.count("run names"), 2, ended)

    def test_a_folder_is_no_module_where_one_is_installed(self):
        self.write("site/used.py", "import os\nV = os.path.basename(os.path.dirname(__file__))\n"
                                   "print('by', os.environ.get('RANK'))\n")
        (self.folder / "program/used").mkdir(parents=True)
        ended = self.warm(self.USED)
        self.assert_warm(ended)
        self.assertEqual(ended.lines, ["by None", "site", "site"], ended)

    def test_the_name_of_a_module_of_python(self):
        for name in ("ast", "platform"):
            with self.subTest(name):
                self.write(f"program/{name}.py", "V = 'own'\n")
                ended = self.warm(f"import {name}\nprint(getattr({name}, 'V', None))\n")
                (self.folder / f"program/{name}.py").unlink()
                self.assertEqual(ended.lines, ["own"] * 2, ended)
                self.assert_cold(ended, f"{name}, in the program's directory, has the same name as")

    def test_the_current_folder_is_not_the_programs(self):
        for name in ("socket", "names"):
            self.write(f"{name}.py", "raise SystemExit('from the current folder')\n")
        ended = self.warm("import socket\ntry:\n    import names\nexcept ImportError:\n"
                          "    print('none', socket.AF_UNIX.name)\n")
        self.assert_warm(ended)
        self.assertEqual(ended.lines, ["none AF_UNIX"] * 2, ended)

    def test_the_folder_of_a_module(self):
        self.write("site/used.py", "import names\nV = names.V\n")
        self.write("names.py", "V = 'own'\n")
        self.write("started.py", self.USED)
        ended = self.run_job("--warm", "--nproc-per-node=2", "-m", "started")
        self.assertEqual(ended.lines, ["own"] * 2, ended)
        self.assert_cold(ended, "importing used needs names")


class Changed(WarmCase):
    """Between two attempts."""

    def attempts(self, change, *, shows, names="import used"):
        """The output of the two attempts; the first one makes the change."""
        ended = self.warm(f"""
            import os, sys
            {names}
            print(os.environ["TORCHELASTIC_RESTART_COUNT"], {shows})
            if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                folder = {str(self.site)!r}
                sys.path.append({str(pathlib.Path(__file__).parent)!r})
                def write(name, text):
                    path = os.path.join(folder, name)
                    with open(path + ".new", "w") as file:
                        file.write(text)
                    os.replace(path + ".new", path)
                {change}
                sys.exit(1)
            """, "--max-restarts=1", nproc=1)
        self.assert_warm(ended)
        return ended.out.split()

    def test_a_submodule(self):
        self.write("site/used/__init__.py", "from used.part import V\n")
        self.write("site/used/part.py", "V = 'old'\n")
        self.assertEqual(self.attempts("write('used/part.py', \"V = 'newer'\\n\")",
                                       shows="used.V"), ["0", "old", "1", "newer"])

    def test_a_module_of_a_namespace_package(self):
        self.write("site/space/used.py", "V = 'old'\n")
        self.assertEqual(self.attempts("write('space/used.py', \"V = 'newer'\\n\")",
                                       shows="used.V", names="from space import used"),
                         ["0", "old", "1", "newer"])

    def test_a_module_that_comes_first_on_the_path(self):
        self.write("later/used.py", "V = 'old'\n")
        self.path.append(str(self.folder / "later"))
        self.assertEqual(self.attempts("write('used.py', \"V = 'newer'\\n\")", shows="used.V"),
                         ["0", "old", "1", "newer"])

    def test_a_module_that_comes_first_in_its_package(self):
        self.write("site/used/__init__.py", "from used.part import V\n")
        self.write("site/used/part.py", "V = 'old'\n")
        self.assertEqual(self.attempts("os.mkdir(folder + '/used/part'); "
                                       "write('used/part/__init__.py', \"V = 'newer'\\n\")",
                                       shows="used.V"), ["0", "old", "1", "newer"])

    def test_an_archive(self):
        archive = self.site / "archive.zip"
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("used.py", "V = 'old'\n")
        self.path.insert(0, str(archive))
        self.assertEqual(self.attempts(
            "import zipfile; f = zipfile.ZipFile(folder + '/archive.zip', 'w'); "
            "f.writestr('used.py', \"V = 'newer'\\n\"); f.close()", shows="used.V"),
            ["0", "old", "1", "newer"])

    def test_while_it_is_imported(self):
        self.write("site/used.py", """
            import os
            V = 'old'
            with open(__file__, 'w') as file:
                file.write("V = 'newer'\\n")
            """)
        self.assertEqual(self.attempts("pass", shows="used.V"), ["0", "old", "1", "newer"])

    def test_other_files_beside_modules(self):
        """A file that the program writes is not a change."""
        self.write("site/used.py", "import os\nV = os.getpid()\n")
        words = self.attempts("write('used.txt', 'x'); write('other.py', 'x')", shows="used.V")
        self.assertEqual(words[1], words[3], words)


class Unknown(WarmCase):
    def test_a_module_that_does_not_exist(self):
        for name, meant in (("jsom", "; did you mean json?"), ("json.decodre",
                            "; did you mean json.decoder?"), ("qqqqqqqqqq", "")):
            with self.subTest(name):
                ended = self.warm("print('run')\n", modules=f"os,{name}")
                self.assertEqual((ended.code, ended.out), (2, ""), ended)
                self.assertEqual(ended.err, f"muster: --warm: no module named {name}{meant}\n")

    def test_a_module_that_fails(self):
        self.write("site/failing.py", "import qqqqqqqqqq\n")
        ended = self.warm("print('run')\n", modules="failing")
        self.assert_warm(ended)
        self.assertEqual(ended.lines, ["run"] * 2, ended)


    def test_submodules_are_imported_under_watch(self):
        """The search for a submodule must not import its package without being watched."""
        self.write("site/package/__init__.py", "import own\n")
        self.write("site/package/part.py", "")
        self.write("program/own.py", "")
        ended = self.warm("import own\n", modules="package.part")
        self.assert_cold(ended, "importing package.part needs own")


class Threads(WarmCase):
    def threads_of(self, *options):
        """The threads of two ranks after importing NumPy and after a matrix product."""
        script = self.write("program/script.py", """
            import numpy, os
            count = lambda: len(os.listdir('/proc/self/task'))
            before = count()
            numpy.ones((600, 600)) @ numpy.ones((600, 600))
            print(before, count())
            """)
        return self.run_job(*options, "--nproc-per-node=2", script, OMP_NUM_THREADS="2")

    def test_that_numpy_starts_and_ends_at_a_fork(self):
        """OMP_NUM_THREADS is greater than 1 if there are more CPUs than workers."""
        cold = self.threads_of()
        if cold.lines != ["2 2"] * 2:
            self.skipTest(f"this NumPy starts no thread during import: {cold.lines}")
        warm = self.threads_of("--warm")
        self.assert_warm(warm)
        self.assertEqual(warm.lines, ["1 2"] * 2, warm)


if __name__ == "__main__":
    unittest.main()
