# SPDX-License-Identifier: Apache-2.0
"""--warm: what is imported once and shared, when workers are started cold instead, and that nothing
is left of the process from which they are forked."""
import os
import signal
import stat
import textwrap
import venv

from harness import eventually, free_port, read
from warm_case import COLD, COUNTED, WarmCase


class Shared(WarmCase):
    """What is imported once, and what each worker has for itself."""

    PRINT = "import os, sys\nprint(os.environ['RANK'], os.getppid(), 'counted' in sys.modules)\n"

    def test_imported_once_for_all_workers_and_restarts(self):
        self.counted()
        ended = self.warm(self.PRINT + "import counted\n"
                          "sys.exit(os.environ['TORCHELASTIC_RESTART_COUNT'] != '2')\n",
                          "--max-restarts=2", code=0)
        self.assertEqual(len(self.imports()), 1, ended)

    def test_the_pid_in_a_line_prefix(self):
        self.counted()
        ended = self.warm("import counted, os\nprint(os.getpid())\n", "-l",
                          "--log-line-prefix-template=${pid}:")
        self.assertEqual((ended.code, len(self.imports())), (0, 1), ended)
        lines = [line.split(":") for line in ended.out.splitlines()]
        self.assertEqual([prefix == pid for prefix, pid in lines], [True] * 2, ended)

    def test_each_worker_imports_when_cold(self):
        self.counted()
        self.run_job("--nproc-per-node=2", self.python("import counted\n"), env=self.env)
        self.assertEqual(len(self.imports()), 2)

    def test_the_programs_own_imports(self):
        self.counted()
        (self.folder / "beside.py").write_text(COUNTED.format(version="beside"))
        self.warm("import counted, beside\n", modules="auto", code=0)
        versions = sorted(version for version, _ in self.imports())
        self.assertEqual(versions, ["1", "beside", "beside"])

    def test_modules_that_are_taken_from_a_package(self):
        (self.site / "package").mkdir()
        (self.site / "package" / "__init__.py").touch()
        (self.site / "package" / "counted.py").write_text(COUNTED.format(version="1"))
        self.warm("from package import counted\n", modules="auto", code=0)
        self.assertEqual(len(self.imports()), 1)

    def test_another_version_between_attempts(self):
        self.counted()
        ended = self.warm("""
            import counted, os, pathlib, sys
            print(os.environ["TORCHELASTIC_RESTART_COUNT"], counted.version)
            if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                new = pathlib.Path(counted.__file__)
                text = new.read_text().replace('"1"', '"2"')
                new.with_suffix(".new").write_text(text)
                new.with_suffix(".new").rename(new)
                sys.exit(1)
            """, "--max-restarts=1", nproc=1)
        self.assertEqual(ended.out.split(), ["0", "1", "1", "2"], ended)

    def test_random_numbers_differ(self):
        self.module("numbers_of", """
            import random, multiprocessing.process
            try:
                import numpy.random
            except ImportError:
                numpy = None
            """)
        ended = self.warm("""
            import multiprocessing, random, numbers_of
            print(random.random())
            print(numbers_of.numpy.random.rand() if numbers_of.numpy else random.random())
            print(multiprocessing.current_process().authkey.hex())
            """, modules="numbers_of", nproc=3)
        self.assertEqual(len(set(ended.out.split())), 9, ended)

    def test_forked_by_the_launcher(self):
        """A worker is the agent's own child, and its parent does not change."""
        self.counted()
        ended = self.warm(self.PRINT)
        lines = [line.split() for line in ended.out.splitlines()]
        self.assertEqual(sorted(line[0] for line in lines), ["0", "1"], ended)
        self.assertEqual(len({line[1] for line in lines}), 1, ended)
        self.assertNotEqual(lines[0][1], self.imports()[0][1])
        self.assertEqual({line[2] for line in lines}, {"True"})


# Maps packages to their directories, like the finder that setuptools generates.
FINDER = """
import importlib.util, os, sys
class EditableFinder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name in MAPPING:
            file = os.path.join(MAPPING[name], "__init__.py")
            return importlib.util.spec_from_file_location(name, file)
def install():
    sys.meta_path.append(EditableFinder)
"""


class Editable(WarmCase):
    """A package that is installed with `pip install -e`: the first attempt changes one of its
    submodules."""

    def setUp(self):
        super().setUp()
        home = self.folder / "environment"
        venv.create(home, symlinks=True)
        self.env.update(PYTHON_EXEC=str(home / "bin/python"))
        self.packages, = home.glob("lib/python*/site-packages")
        self.sources = self.folder / "project" / "src"
        (self.sources / "edited").mkdir(parents=True)
        (self.sources / "edited" / "__init__.py").touch()
        (self.sources / "edited" / "part.py").write_text(COUNTED.format(version="old"))

    def assert_new_code_runs(self):
        ended = self.warm("""
            import edited.part, os, pathlib, signal, sys
            print(edited.part.version, flush=True)
            if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                if os.environ["RANK"] == "1":
                    signal.pause()
                file = pathlib.Path(edited.part.__file__)
                file.write_text(file.read_text().replace("old", "newer"))
                sys.exit(1)
            """, "--max-restarts=1", modules="auto", code=0)
        self.assertNotIn(COLD, ended.err)
        self.assertEqual(ended.out.split()[-2:], ["newer"] * 2, ended)
        # Once in each process from which the workers of an attempt are forked.
        self.assertEqual([version for version, _ in self.imports()], ["old", "newer"], ended)

    def test_new_code_of_a_package_on_a_path_of_a_pth_file_runs_after_a_restart(self):
        (self.packages / "__editable__.edited-1.0.pth").write_text(f"{self.sources}\n")
        self.assert_new_code_runs()

    def test_new_code_of_a_package_that_a_finder_maps_runs_after_a_restart(self):
        mapping = {"edited": str(self.sources / "edited")}
        (self.packages / "__editable___edited_1_0_finder.py").write_text(
            f"MAPPING = {mapping!r}\n{FINDER}")
        (self.packages / "__editable__.edited-1.0.pth").write_text(
            "import __editable___edited_1_0_finder; __editable___edited_1_0_finder.install()\n")
        self.assert_new_code_runs()


class ManyNodes(WarmCase):
    def test_both_import_once_and_restart_together(self):
        """The job waits for a node that is still importing; then each node forks its workers,
        twice."""
        self.module("held", COUNTED.format(version="held") + """
import time
while not os.path.exists(os.environ["COUNT"] + ".go"):
    time.sleep(0.01)
""")
        script = self.python(textwrap.dedent("""
            import held, os, sys
            restarts = os.environ["TORCHELASTIC_RESTART_COUNT"]
            print(restarts, os.environ["RANK"], os.environ["WORLD_SIZE"], flush=True)
            sys.exit(restarts == "0")
            """))
        endpoint = f"127.0.0.1:{free_port()}"
        nodes = [self.job("--warm=held", "--nnodes=2", "--nproc-per-node=2", "--max-restarts=1",
                          "--rdzv-backend=c10d", f"--rdzv-endpoint={endpoint}", "--rdzv-id=warm",
                          script, env=self.env) for _ in range(2)]
        eventually(lambda: len(self.imports()) == 2, "both nodes import")
        (self.folder / "count.go").touch()
        ended = [node.end() for node in nodes]
        self.assertEqual([one.code for one in ended], [0, 0], f"{ended[0]}\n{ended[1]}")
        last = sorted(line for one in ended for line in one.out.splitlines()
                      if line.startswith("1 "))
        self.assertEqual(last, [f"1 {rank} 4" for rank in range(4)])
        self.assertEqual(len(self.imports()), 2)

    def test_told_to_stop_while_it_imports(self):
        self.module("endless", COUNTED.format(version="endless") + """
import time
time.sleep(1000)
""")
        script = self.python("import endless\n")
        endpoint = f"127.0.0.1:{free_port()}"
        for many in ((), ("--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint={endpoint}")):
            self.count.unlink(missing_ok=True)
            job = self.job("--warm=endless", *many, script, env=self.env)
            eventually(self.imports, "it imports")
            job.kill(signal.SIGTERM)
            self.assertEqual(job.end().code, 128 + signal.SIGTERM)
            self.assert_nothing_left(job)


class Refused(WarmCase):
    """If no worker may be forked, all are started cold, and one line gives the reason."""

    def assert_cold(self, ended, why):
        self.assertEqual(ended.code, 0, ended)
        self.assertEqual(ended.err.count(COLD), 1, ended)
        self.assertIn(why, ended.err)
        self.assertEqual(sorted(ended.out.split()), ["0", "1"], ended)

    SCRIPT = "import os\nprint(os.environ['RANK'])\n"

    def test_a_thread(self):
        self.module("threaded", """
            import threading
            threading.Thread(target=threading.Event().wait, daemon=True).start()
            """)
        self.counted()
        ended = self.warm(self.SCRIPT, modules="counted,threaded")
        self.assert_cold(ended, "importing threaded has started a thread")

    def test_an_open_device(self):
        device = f"/dev/nvidia_muster_test_{os.getpid()}"
        try:
            os.mknod(device, stat.S_IFCHR | 0o600, os.stat("/dev/null").st_rdev)
        except PermissionError:
            self.skipTest("needs root")
        self.addCleanup(os.unlink, device)
        self.module("opened", f"device = open({device!r})\n")
        ended = self.warm(self.SCRIPT, modules="opened")
        self.assert_cold(ended, f"importing opened has opened {device}, which workers must not")

    def test_the_end_of_the_zygote_in_an_import(self):
        self.module("dying", "import os\nos._exit(3)\n")
        self.assert_cold(self.warm(self.SCRIPT, modules="dying"), "has exited")

    def test_a_module_that_fails_is_the_workers_affair(self):
        self.module("failing", "raise ImportError('not here')\n")
        ended = self.warm("import failing\n", modules="failing", nproc=1, code=1)
        self.assertIn("ImportError: not here", ended.err)
        self.assertNotIn(COLD, ended.err)

    def test_an_executable(self):
        ended = self.run_job("--warm", "--no-python", "true", code=2)
        self.assertEqual(ended.err, "muster: --warm=auto: needs a Python program\n")
        env = {**self.env, "MUSTER_WARM": "1"}
        self.assertEqual(self.run_job("--no-python", "true", env=env).code, 0)

    def test_killed_between_attempts(self):
        self.counted()
        script = self.python(textwrap.dedent("""
            import os, pathlib, sys, time
            folder = pathlib.Path(sys.argv[1])
            print(os.environ["RANK"], flush=True)
            if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                (folder / ("up" + os.environ["RANK"])).touch()
                while not (folder / "go").exists():
                    time.sleep(0.01)
                sys.exit(1)
            """))
        job = self.job("--warm=counted", "--nproc-per-node=2", "--max-restarts=1", script,
                       self.folder, env=self.env)
        self.wait_for("up0", "up1")
        zygote = self.zygote(job)
        os.kill(zygote, signal.SIGKILL)
        eventually(lambda: not read(f"/proc/{zygote}/cmdline"), "the zygote is gone")
        (self.folder / "go").touch()
        ended = self.wait_for_exit(job, 0)
        self.assertEqual(ended.err.count(COLD), 1, ended)
        self.assertEqual(sorted(ended.out.split()), ["0", "0", "1", "1"], ended)

    def test_stopped_between_attempts(self):
        self.counted()
        script = self.python(textwrap.dedent("""
            import os, pathlib, sys, time
            print(os.environ["RANK"], flush=True)
            if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                pathlib.Path(sys.argv[1], "up").touch()
                while not pathlib.Path(sys.argv[1], "go").exists():
                    time.sleep(0.01)
                sys.exit(1)
            """))
        job = self.job("--warm=counted", "--max-restarts=1", script, self.folder, env=self.env)
        self.wait_for("up")
        os.kill(self.zygote(job), signal.SIGSTOP)
        (self.folder / "go").touch()
        ended = job.end()
        self.assertEqual((ended.code, ended.out.split()), (0, ["0", "0"]), ended)
        self.assertIn(COLD + "the --warm parent process did not respond", ended.err)
        self.assert_nothing_left(job)

    def test_a_module_that_fails_after_it_has_started_a_thread(self):
        self.module("both", """
            import threading
            threading.Thread(target=threading.Event().wait, daemon=True).start()
            raise ImportError
            """)
        ended = self.warm(self.SCRIPT, modules="both")
        self.assert_cold(ended, "importing both has started a thread")


class NothingIsLeft(WarmCase):
    SCRIPT = """
        import os, pathlib, subprocess, sys, time
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(1000)  # a daemon
            os._exit(0)
        (pathlib.Path(sys.argv[1]) / ("up" + os.environ["RANK"])).touch()
        while not (pathlib.Path(sys.argv[1]) / "go").exists():
            time.sleep(0.01)
        """

    def daemons(self):
        self.counted()
        job = self.job("--warm=counted", "--nproc-per-node=2", "--shutdown-timeout=1",
                       self.python(textwrap.dedent(self.SCRIPT)), self.folder, env=self.env)
        self.wait_for("up0", "up1")
        # guard, agent, zygote, two workers, two daemons
        eventually(lambda: len(job.pids()) == 7, lambda: f"all seven run: {job.pids()}")
        return job

    def test_at_the_end(self):
        job = self.daemons()
        (self.folder / "go").touch()
        self.assertEqual(job.end().code, 0)
        self.assert_nothing_left(job)

    def test_when_told_to_stop(self):
        job = self.daemons()
        job.kill(signal.SIGTERM)
        self.assertEqual(job.end().code, 128 + signal.SIGTERM)
        self.assert_nothing_left(job)

    def test_when_the_launcher_is_killed(self):
        job = self.daemons()
        self.kill_launcher(job)

    def test_when_the_agent_is_killed(self):
        job = self.daemons()
        os.kill(job.agent(), signal.SIGKILL)
        self.assertEqual(job.end().code, 137)
        self.assert_nothing_left(job)

    def test_daemons_of_an_attempt_end_with_it(self):
        """Between attempts only the zygote survives."""
        self.counted()
        ended = self.warm("""
            import os, sys, time
            daemon = "daemon%s" % os.environ["TORCHELASTIC_RESTART_COUNT"]
            if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                out, into = os.pipe()
                if os.fork() == 0:
                    os.setsid()
                    pid = os.fork()
                    if pid == 0:
                        time.sleep(1000)
                    os.write(into, b"%d" % pid)
                    os._exit(0)
                open(os.environ["COUNT"] + ".daemon", "wb").write(os.read(out, 20))
                sys.exit(1)
            pid = int(open(os.environ["COUNT"] + ".daemon").read())
            print("gone" if not os.path.exists("/proc/%d" % pid) else "left")
            """, "--max-restarts=1", nproc=1)
        self.assertEqual(ended.out, "gone\n", ended)
