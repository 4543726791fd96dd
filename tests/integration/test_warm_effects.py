# SPDX-License-Identifier: Apache-2.0
"""--warm: what a module does to its process during its import. A program sees the same as after a
cold start: the effect exists in each worker as well, or the workers are started cold and one line
gives the reason."""
import os
import pathlib
import textwrap
import unittest

from warm_case import COLD, WarmCase

STATE = pathlib.Path(__file__).parent / "warm" / "state.py"


class EffectCase(WarmCase):
    def effect(self, text):
        """The module `effect`, which does this if $EFFECT is set."""
        body = textwrap.indent(textwrap.dedent(text), "    ")
        self.module("effect", f"import os, sys\nif os.environ.get('EFFECT'):\n{body}")

    def run_both(self, program, *args, options=(), nproc=2):
        """Cold, warm, and warm without the effect, as (code, lines, stderr)."""
        script = self.python(textwrap.dedent(program))
        ended = []
        for warm, effect in (((), "1"), (("--warm",), "1"), (("--warm",), "")):
            ended.append(self.run_job(*warm, "--nproc-per-node", nproc, *options, script, *args,
                                      env={**self.env, "EFFECT": effect}))
        return ended

    def assert_same(self, effect, program, *args, why="", **kwargs):
        """Cold and warm workers print the same lines, which differ from those without the effect.
        With `why`, all workers are cold for this reason. Returns the lines."""
        self.effect(effect)
        cold, warm, without = self.run_both(program, *args, **kwargs)
        shown = f"\ncold {cold}\nwarm {warm}\nwithout {without}"
        self.assertEqual((cold.code, sorted(cold.out.splitlines())),
                         (warm.code, sorted(warm.out.splitlines())), shown)
        self.assertNotEqual(sorted(without.out.splitlines()), sorted(warm.out.splitlines()), shown)
        self.assertNotIn(COLD, without.err)
        if why:
            self.assertEqual(warm.err.count(COLD), 1, warm)
            self.assertIn(f"importing effect {why}", warm.err)
        else:
            self.assertNotIn(COLD, warm.err)
        return sorted(warm.out.splitlines())


class Kept(EffectCase):
    """Each worker has it, and is warm."""

    def test_the_environment(self):
        self.env.update(CHANGED="1", REMOVED="1")
        lines = self.assert_same(
            """
            os.environ["SET"] = "by import"
            os.environ["CHANGED"] = "by import"
            os.environ.pop("REMOVED", None)
            os.environ.setdefault("DEFAULT", "by import")
            os.environ.setdefault("RANK", "not a rank")
            os.putenv("PUT", "by import")
            """, """
            import os, effect, subprocess
            names = ("SET", "CHANGED", "REMOVED", "DEFAULT")
            print(*[os.environ.get(name) for name in (*names, "RANK")])
            print(*[subprocess.run(["sh", "-c", "echo ${%s-unset}" % name], stdout=-1).stdout
                    for name in (*names, "PUT")])
            """)
        self.assertEqual(lines[2:], [f"by import by import None by import {rank}"
                                     for rank in (0, 1)])

    def test_the_environment_that_python_starts_with(self):
        (self.site / "sitecustomize.py").write_text(
            "import os\nif os.environ.get('EFFECT'): os.environ['BY_SITE'] = '1'\n")
        self.assert_same("pass", "import os, effect\nprint(os.environ.get('BY_SITE'))\n"
                                 "print(os.environ.get('LC_CTYPE'))\n")

    def test_streams_that_are_replaced(self):
        for replaced in ("""
                         import io
                         class Upper(io.TextIOBase):
                             def __init__(self, file): self.file = file
                             def write(self, text): return self.file.write(text.upper())
                         sys.stdout = Upper(sys.stdout)
                         """, """
                         import codecs
                         sys.stdout = codecs.getwriter("utf-16-le")(sys.stdout.buffer)
                         """, """
                         import io
                         sys.stdout = io.TextIOWrapper(sys.stdout.detach(), "utf-16-le",
                                                       write_through=True)
                         """, """
                         sys.stdout.reconfigure(encoding="utf-16-le")
                         """, """
                         sys.stdout = open(os.devnull, "w")
                         """):
            with self.subTest(replaced):
                self.assert_same(replaced, "import effect\nprint('seen')\n")

    def test_streams_that_a_module_keeps(self):
        self.assert_same(
            """
            import logging
            handler = logging.StreamHandler(sys.stdout)
            logging.getLogger().addHandler(handler)
            """, """
            import effect, logging, sys
            logging.warning("logged")
            if hasattr(effect, "handler"):
                print(effect.handler.stream is sys.stdout is sys.__stdout__)
            """)

    def test_the_command_line(self):
        self.assert_same(
            "seen, words = sys.argv, list(sys.argv)\n",
            """
            import effect, os, sys
            if hasattr(effect, "seen"):
                print(effect.seen is sys.argv, effect.words, sys.argv)
            """, "--lr", "0.1")

    def test_the_command_line_that_a_module_changes(self):
        self.assert_same("sys.argv.remove('--for-module')\n",
                         "import effect, sys\nprint(sys.argv)\n", "--for-module", "1")

    def test_the_main_module(self):
        self.assert_same(
            """
            import __main__
            seen = __main__, __main__.__file__
            __main__.by_import = 1
            """, """
            import effect, sys
            if hasattr(effect, "seen"):
                print(effect.seen[0] is sys.modules["__main__"], effect.seen[1] == __file__)
                print(by_import)
            """)

    def test_a_file_that_is_read(self):
        """Each worker has its own file position."""
        (self.folder / "read").write_text("abcdefghi")
        self.env["READ"] = str(self.folder / "read")
        lines = self.assert_same(
            """
            file = open(os.environ["READ"], buffering=0, mode="rb")
            file.read(3)
            """, "import effect\nprint(effect.file.read(3) if hasattr(effect, 'file') else '')\n")
        self.assertEqual(lines, ["b'def'"] * 2)

    def test_state_of_the_process_and_of_python(self):
        self.assert_same(
            """
            import atexit, faulthandler, gc, locale, resource, signal, threading, warnings
            os.umask(0o077)
            os.nice(3)
            resource.setrlimit(resource.RLIMIT_NOFILE, (333, 333))
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGTERM})
            def handler(*_): pass
            signal.signal(signal.SIGTERM, handler)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            atexit.register(lambda: print("at exit", os.environ["RANK"], flush=True))
            sys.excepthook = handler
            sys.path.insert(0, "/of/import")
            sys.path.append("/behind")
            class Finder:
                def find_spec(self, *_): return None
            sys.meta_path.insert(0, Finder())
            warnings.simplefilter("error", UserWarning)
            locale.setlocale(locale.LC_ALL, "C")
            gc.disable()
            gc.set_threshold(7, 5)
            sys.setrecursionlimit(777)
            sys.setswitchinterval(0.5)
            faulthandler.enable()
            own = threading.local()
            own.seen = 1
            """, STATE.read_text())

    def test_an_import_that_fails_in_the_end(self):
        """Whatever it has done before, a worker does it again."""
        self.assert_same("os.environ['COUNTED'] = os.environ.get('COUNTED', '') + '1'\n"
                         "raise ImportError\n",
                         "import os\n"
                         "try:\n"
                         "    import effect\n"
                         "except ImportError:\n"
                         "    pass\n"
                         "print(os.environ.get('COUNTED'))\n")


class Cold(EffectCase):
    """Workers would share it, or would not have it, so all are started cold."""

    PRINT = "import effect\nprint(hasattr(effect, 'seen'))\n"

    def assert_cold(self, effect, why, program=PRINT):
        self.assert_same(effect + "\n", program, why=why)

    def test_a_process(self):
        self.assert_cold("import subprocess\nseen = subprocess.Popen(['sleep', '1000'])",
                         "has started a process", """
                         import effect
                         if hasattr(effect, "seen"):
                             effect.seen.kill()
                             print(effect.seen.wait())
                         """)

    def test_a_process_that_has_ended(self):
        self.assert_cold("import subprocess\nseen = subprocess.Popen(['false'])\n"
                         "os.waitid(os.P_PID, seen.pid, os.WEXITED | os.WNOWAIT)\n",
                         "has started a process",
                         "import effect\nprint(hasattr(effect, 'seen') and effect.seen.wait())\n")

    def test_a_process_that_was_awaited_is_none(self):
        self.assert_same("import subprocess\nseen = subprocess.run(['true']).returncode\n",
                         self.PRINT)

    def test_sockets_pipes_and_files_that_are_written(self):
        self.env["WRITTEN"] = str(self.folder / "written")
        for opened, what in (("import socket\nseen = socket.socket()", "socket:"),
                             ("seen = os.pipe()", "pipe:"),
                             ("import select\nseen = select.epoll()", "anon_inode:"),
                             ("seen = os.memfd_create('x')", "/memfd:x"),
                             ("seen = open(os.environ['WRITTEN'], 'a')", self.env["WRITTEN"])):
            with self.subTest(what):
                self.assert_cold(opened, f"has opened {what}")

    def test_standard_streams_by_number(self):
        for number, name in enumerate(("input", "output")):
            with self.subTest(name):
                self.assert_cold(f"os.close({number})\nos.open('/dev/zero', os.O_RDWR)",
                                 f"has replaced standard {name}",
                                 "import effect, os\n"
                                 f"print(os.readlink('/proc/self/fd/{number}') == '/dev/zero')\n")

    def test_the_current_folder(self):
        self.assert_cold("os.chdir('/')", "has changed the current directory",
                         "import effect, os\nprint(os.getcwd())\n")

    @unittest.skipIf(len(os.sched_getaffinity(0)) == 1, "needs two CPUs")
    def test_cpus(self):
        self.assert_cold("os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})",
                         "has bound the process to CPUs",
                         "import effect, os\nprint(os.sched_getaffinity(0))\n")

    def test_a_timer(self):
        self.assert_cold("import signal\nsignal.setitimer(signal.ITIMER_VIRTUAL, 1000)",
                         "has started a timer",
                         "import effect, signal\n"
                         "print(signal.getitimer(signal.ITIMER_VIRTUAL)[0] > 0)\n")

    def test_a_parent_of_orphans(self):
        self.assert_cold("import ctypes\nctypes.CDLL(None).prctl(36, 1, 0, 0, 0)",
                         "has become a subreaper",
                         "import effect, ctypes\nword = ctypes.c_int()\n"
                         "ctypes.CDLL(None).prctl(37, ctypes.byref(word), 0, 0, 0)\n"
                         "print(word.value)\n")

    def test_locked_memory(self):
        self.assert_cold("import ctypes, mmap\nseen = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE)\n"
                         "address = ctypes.addressof(ctypes.c_char.from_buffer(seen))\n"
                         "ctypes.CDLL(None).mlock(ctypes.c_void_p(address), 4096)",
                         "has locked memory",
                         "import effect, re\n"
                         "print(re.search('VmLck:.*', open('/proc/self/status').read())[0])\n")

    def test_memory_that_is_shared(self):
        for shared in ("import mmap\nseen = mmap.mmap(-1, 4096)",
                       "from multiprocessing import get_context\n"
                       "seen = get_context('fork').Lock()"):
            with self.subTest(shared):
                self.effect(shared)
                _, warm, without = self.run_both(self.PRINT)
                self.assertIn(COLD + "one of the imports has mapped shared ", warm.err)
                self.assertNotIn(COLD, without.err)

    def test_shared_memory_with_a_name(self):
        self.assert_cold("from multiprocessing import shared_memory\n"
                         "seen = shared_memory.SharedMemory(create=True, size=4096)",
                         "has started a process",
                         "import effect\n"
                         "print(hasattr(effect, 'seen'))\n"
                         "if hasattr(effect, 'seen'): effect.seen.unlink()\n")

    def test_a_temporary_folder(self):
        self.effect("import tempfile\nfolder = tempfile.TemporaryDirectory()\n")
        _, warm, without = self.run_both("import effect, os\n"
                                         "if hasattr(effect, 'folder'):\n"
                                         "    print(os.path.basename(effect.folder.name))\n")
        self.assertEqual(len(set(warm.out.split())), 2, warm)
        self.assertIn("has created a temporary directory", warm.err)
        self.assertNotIn(COLD, without.err)
