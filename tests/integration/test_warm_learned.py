# SPDX-License-Identifier: Apache-2.0
"""--warm: modules that the program imports below its top level are preloaded for the next attempt
and the next job, unless a forked worker would notice."""
import ctypes
import multiprocessing
import os
import pathlib
import shutil
import stat
import textwrap
import types
from unittest import mock

from warm_case import COLD, COUNTED, WarmCase

TRIES = 20  # of a job that is short only on a machine that is not busy

# Imports a module in a function and waits until the zygote has imported it, too.
LATER = """
import os, pathlib, sys, time
def later():
    import counted
    return counted.version
is_ahead = 'counted' in sys.modules
print(os.environ["TORCHELASTIC_RESTART_COUNT"], is_ahead, later())
count = pathlib.Path(os.environ["COUNT"])
ends = time.monotonic() + 60
lines = lambda: count.read_text().count("\\n") if count.exists() else 0
while lines() < int(sys.argv[1]) and time.monotonic() < ends:
    time.sleep(0.01)
sys.exit(os.environ["TORCHELASTIC_RESTART_COUNT"] != sys.argv[2])
"""


class LearnedCase(WarmCase):
    def learn(self, imports=2, restarts=1, *, program=LATER, modules="auto", **variables):
        """Runs the program with one worker until the module was imported this many times in
        total."""
        return self.run_job(f"--warm={modules}", f"--max-restarts={restarts}", "--log-level=info",
                            self.python(textwrap.dedent(program)), imports, restarts,
                            env={**self.env, **variables})

    def learn_briefly(self, *names, **variables):
        """Runs one job for each item of `names`, which lists the names in the file after this job.
        The jobs end before the zygote checks what its workers have imported (after a second). On a
        busy machine, this may need another try. Returns the last job."""
        names = names or (["?counted"],)
        for _ in range(TRIES):
            shutil.rmtree(self.folder / "cache", ignore_errors=True)
            self.count.unlink(missing_ok=True)
            found = []
            for _ in names:
                ended = self.learn(1, **variables)
                found.append(self.names())
            if found == list(names):
                break
        self.assertEqual(found, list(names), ended)
        return ended

    def file(self):
        found, = (self.folder / "cache/muster/warm").iterdir()
        return found

    def names(self):
        """The names in all files; there is one for each program that imported anything."""
        files = (self.folder / "cache").glob("muster/warm/*")
        return [line for file in files for line in file.read_text().splitlines()[2:]]

    def assert_ahead(self, ended, *ahead):
        self.assertEqual(ended.code, 0, ended)
        self.assertNotIn(COLD, ended.err, ended)
        self.assertEqual([line.split()[1] for line in ended.out.splitlines() if line[0].isdigit()],
                         [str(each) for each in ahead], ended)


class Learned(LearnedCase):
    def test_the_next_attempt(self):
        self.counted()
        ended = self.learn()
        self.assert_ahead(ended, False, True)
        self.assertEqual(len(self.imports()), 2, ended)

    def test_what_earlier_modules_leave_is_collected_at_the_end(self):
        self.counted()
        self.cyclic("kept = Node()\n")
        ended = self.learn(program="import cyclic\n" + LATER)
        self.assert_ahead(ended, False, True)
        self.assertEqual(ended.out.count("collected"), 2, ended)

    def test_the_first_start_of_the_next_job(self):
        self.counted()
        self.learn()
        self.assertEqual(self.names(), ["counted"])
        self.assertEqual(stat.S_IMODE(self.file().stat().st_mode), 0o600)
        self.assert_ahead(self.learn(3, 0), True)

    def test_what_a_short_attempt_has_imported(self):
        """The zygote had no time to import it, because the job ends before that. The first workers
        of the next job do not wait for it, because it may turn out to be unsafe."""
        self.counted()
        self.learn_briefly()
        # The second attempt waits until the zygote has finished.
        self.assert_ahead(self.learn(4), False, True)
        self.assertEqual(self.names(), ["counted"])
        self.assert_ahead(self.learn(5, 0), True)

    def test_what_two_short_jobs_have_imported(self):
        """Otherwise a program whose jobs are always short would never be warm."""
        self.counted()
        self.learn_briefly(["?counted"], ["??counted"])
        self.assert_ahead(self.learn(1, 0), True)
        self.assertEqual(self.names(), ["counted"])

    def test_a_rank_that_dies_while_its_modules_are_imported_ahead(self):
        """The import does not end before the rank is dead."""
        self.counted()
        with open(self.site / "counted.py", "a", encoding="utf-8") as file:
            file.write(textwrap.dedent("""
                import pathlib, time
                died = pathlib.Path(os.environ["DIED"])
                if "RANK" not in os.environ and not died.exists():
                    pid = int(died.with_name("rank").read_text())
                    died.with_name("begun").touch()
                    try:
                        while open("/proc/%d/stat" % pid).read().rpartition(")")[2][1] != "Z":
                            time.sleep(0.01)
                    except OSError:
                        pass  # the rank is dead and reaped
                    died.touch()
                """))
        ended = self.learn(program="""
            import os, pathlib, signal, sys, time
            is_ahead = "counted" in sys.modules
            def later():
                import counted
            folder = pathlib.Path(os.environ["DIED"]).parent
            (folder / "rank").write_text(str(os.getpid()))
            later()
            print(os.environ["TORCHELASTIC_RESTART_COUNT"], is_ahead, flush=True)
            while not (folder / "begun").exists():
                time.sleep(0.01)
            if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                os.kill(os.getpid(), signal.SIGKILL)
            """, DIED=str(self.folder / "died"))
        self.assert_ahead(ended, False, True)

    def test_a_list_of_modules_is_final(self):
        self.counted()
        self.assert_ahead(self.learn(1, modules="json"), False, False)
        self.assertFalse((self.folder / "cache").exists())

    def test_own_modules(self):
        self.counted()
        (self.site / "counted.py").rename(self.folder / "counted.py")
        self.assert_ahead(self.learn(1), False, False)
        self.assertEqual(self.names(), [])

    def test_a_module_that_has_changed(self):
        self.counted()
        self.learn()
        self.counted("2")
        ended = self.learn(3, 0)
        self.assertEqual(ended.out.split(), ["0", "True", "2"], ended)

    def test_after_the_program_has_changed_its_environment(self):
        """What is imported may depend on it."""
        self.counted()
        self.assert_ahead(self.learn(1, program="import os\nos.environ['X'] = 'y'\n" + LATER),
                          False, False)
        self.assertEqual(self.names(), [])

    def test_a_file_that_others_may_write(self):
        self.counted()
        self.learn()
        self.file().chmod(0o666)
        self.assert_ahead(self.learn(1, 0), False)

    def test_a_module_that_is_only_looked_up(self):
        self.counted()
        self.learn(0, program="import importlib.util\n" + LATER.replace(
            "import counted", "return importlib.util.find_spec('counted')"))
        self.assertEqual(self.names(), [])

    def test_a_damaged_file(self):
        self.counted()
        self.learn()
        whole = self.file().read_bytes()
        for text in (b"", b"\0\xff" * 99, whole[:-9],
                     whole + b"not a name\nos.path.no\n!\n..\nqqqqq\n"):
            with self.subTest(text[-20:]):
                self.file().write_bytes(text)
                ended = self.learn(1, 0)
                self.assertEqual((ended.code, ended.err), (0, ended.err.replace(COLD, "")), ended)

    def recorders(self, *options, **variables):
        """The ranks whose imports are recorded."""
        script = self.python("import os, sys\n"
                             "if any(type(each).__module__ == 'muster_zygote' "
                             "for each in sys.meta_path):\n"
                             "    print(os.environ['RANK'])\n")
        ended = self.run_job(*options, "--nproc-per-node=2", script, env={**self.env, **variables})
        self.assertEqual((ended.code, ended.err), (0, ""), ended)
        return ended.out.split()

    def test_who_is_recorded(self):
        self.assertEqual(self.recorders("--warm"), ["0"])
        self.assertEqual(self.recorders("--warm=json"), [])
        self.assertEqual(self.recorders(), [])

    def test_without_a_folder(self):
        self.assertEqual(self.recorders("--warm", XDG_CACHE_HOME="/proc/none"), [])


class Writers(WarmCase):
    """Several jobs that save the names of the same program at the same time."""

    WRITERS, ROUNDS = 3, 200

    def names_file(self):
        """A NamesFile in a folder of its own, from the source that is embedded in muster."""
        source = pathlib.Path(__file__).parents[2] / "lib/process/warm/zygote_learned.py"
        parts = {"libc": ctypes.CDLL(None)}
        exec(compile(source.read_text(), source, "exec"), parts)
        program = types.SimpleNamespace(kind="file", name="train.py", source="/train.py")
        with mock.patch.dict(os.environ, XDG_CACHE_HOME=str(self.folder / "cache")):
            file = parts["NamesFile"](program)
        self.assertTrue(file.is_usable())
        return file

    def write(self, names):
        """Runs in a process of its own, which exits with 0 if each write succeeds."""
        file = self.names_file()
        os._exit(not all(file.write(names) for _ in range(self.ROUNDS)))

    def test_each_file_is_whole_and_no_writer_fails(self):
        lists = [[f"module_{writer}_{i}" for i in range(2000)] for writer in range(self.WRITERS)]
        file = self.names_file()
        self.assertTrue(file.write(lists[0]))
        fork = multiprocessing.get_context("fork")
        writers = [fork.Process(target=self.write, args=(each,)) for each in lists]
        for each in writers:
            each.start()
        while any(each.is_alive() for each in writers):
            self.assertIn(file.read(), lists)
        self.assertEqual([each.exitcode for each in writers], [0] * self.WRITERS)


class LeftOut(LearnedCase):
    """Modules that are not preloaded, because a forked worker would differ from a cold one."""

    def assert_left_out(self, module, why):
        self.counted()
        with open(self.site / "counted.py", "a", encoding="utf-8") as file:
            file.write(textwrap.dedent(module))
        self.module("other", COUNTED.format(version=1))
        # Until the new zygote has imported the other module.
        ended = self.learn(4, program=LATER.replace("import counted", "import counted, other"))
        self.assert_ahead(ended, False, False)
        self.assertEqual(len(self.imports()), 5, "the second attempt imports one of the two")
        again = f"importing the modules again: importing counted {why}"
        self.assertEqual(ended.err.count(again), 1, ended)
        self.assertEqual(self.names(), ["other", "!counted"])
        again = self.learn(1, 0)
        self.assert_ahead(again, False)
        self.assertNotIn("again", again.err)
        return ended

    def test_a_thread(self):
        self.assert_left_out("""
            import threading
            threading.Thread(target=threading.Event().wait, daemon=True).start()
            """, "has started a thread")

    def test_a_socket(self):
        self.assert_left_out("import socket\nkept = socket.socket()\n", "has opened socket:")

    def test_random_numbers(self):
        self.assert_left_out("import random\nkept = random.random()\n",
                             "has drawn random numbers")

    def test_output(self):
        """Each worker prints it, as after a cold start."""
        ended = self.assert_left_out("import sys\nprint('printed', file=sys.stderr)\n",
                                     "has printed something")
        self.assertEqual(ended.err.count("printed\n"), 2, ended)

    def test_no_worker_waits_for_a_module_that_no_zygote_has_imported(self):
        """An earlier job was too short to find out that the module is unsafe."""
        self.counted()
        order = self.folder / "order"
        with open(self.site / "counted.py", "a", encoding="utf-8") as file:
            file.write("print('printed')\nimport os\nwith open(os.environ['ORDER'], 'a') as file:\n"
                       "    file.write(os.environ.get('RANK', 'zygote') + '\\n')\n")
        self.learn_briefly(ORDER=str(order))
        order.unlink()
        ended = self.learn(4, ORDER=str(order))
        self.assertEqual(order.read_text().split(), ["0", "zygote", "0"], ended)
        self.assertEqual(self.names(), ["!counted"])

    def test_unsafe_modules_of_short_jobs_cost_each_later_job_one_zygote(self):
        self.counted()
        counted = (self.site / "counted.py").read_text() + "print('printed')\n"
        (self.site / "counted.py").write_text(counted)
        self.module("other", counted)
        ended = self.learn_briefly(["?counted", "?other"], ["??counted", "??other"],
                                   ["??other", "!counted"], ["!counted", "!other"],
                                   program=LATER.replace("import counted", "import counted, other"))
        self.assert_ahead(ended, False, False)
        self.assertEqual(ended.err.count("importing the modules again"), 1, ended)

    def test_output_of_c(self):
        """It may still be in a buffer when the import ends."""
        self.assert_left_out("import ctypes\nctypes.CDLL(None).puts(b'printed')\n",
                             "has printed something")
