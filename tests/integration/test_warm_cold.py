# SPDX-License-Identifier: Apache-2.0
"""--warm: effects of a module's import that forked workers would share, or would not have. All
workers are then started cold, and one line gives the reason."""
import os
import sys
import unittest

from warm_case import COLD, EffectCase


class Cold(EffectCase):
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

    def test_shared_memory_of_system_v(self):
        self.effect("import ctypes\nlibc = ctypes.CDLL(None)\n"
                    "libc.shmat.restype = ctypes.c_void_p\nseen = libc.shmget(0, 4096, 0o1600)\n"
                    "libc.shmat(seen, None, 0)\nlibc.shmctl(seen, 0, None)\n")
        _, warm, without = self.run_both(self.PRINT)
        self.assertIn(COLD + "one of the imports has mapped shared /SYSV", warm.err)
        self.assertNotIn(COLD, without.err)

    def test_threads(self):
        for started in ("import threading\n"
                        "seen = threading.Thread(target=threading.Event().wait, daemon=True)\n"
                        "seen.start()",
                        "from concurrent.futures import ThreadPoolExecutor\n"
                        "seen = ThreadPoolExecutor(1)\nseen.submit(int)",
                        "import faulthandler\nseen = faulthandler.dump_traceback_later(1000)"):
            with self.subTest(started):
                self.assert_cold(started, "has started a thread")

    def test_event_loop(self):
        self.assert_cold("import asyncio\nseen = asyncio.new_event_loop()",
                         "has opened anon_inode:")

    def test_closed_descriptors(self):
        """The zygote cannot report the module, because its socket is closed."""
        self.effect("os.closerange(3, 100)\nseen = 1\n")
        _, warm, without = self.run_both(self.PRINT)
        self.assertIn(COLD + "the --warm parent process has exited", warm.err)
        self.assertEqual(warm.out, "True\nTrue\n")
        self.assertNotIn(COLD, without.err)

    def test_locked_files(self):
        for call in ("flock", "lockf"):
            with self.subTest(call):
                self.assert_cold(f"import fcntl\nseen = open(__file__)\n"
                                 f"fcntl.{call}(seen, fcntl.LOCK_SH)", "has locked /", """
                                 import effect
                                 if hasattr(effect, "seen"):
                                     file = f"/proc/self/fdinfo/{effect.seen.fileno()}"
                                     print("lock:" in open(file).read())
                                 """)

    def test_blocking_output(self):
        self.assert_cold("os.set_blocking(1, False)", "has made standard output non-blocking",
                         "import effect, os\nprint(os.get_blocking(1))\n")

    def test_subinterpreters(self):
        self.assert_cold("try:\n    import _interpreters as made\n"
                         "except ImportError:\n    import _xxsubinterpreters as made\n"
                         "seen = made.create()", "has created a subinterpreter")

    def test_parent_death_signal(self):
        self.assert_cold("import ctypes\nctypes.CDLL(None).prctl(1, 10, 0, 0, 0)",
                         "has changed the parent-death signal",
                         "import effect, ctypes\nword = ctypes.c_int()\n"
                         "ctypes.CDLL(None).prctl(2, ctypes.byref(word), 0, 0, 0)\n"
                         "print(word.value)\n")

    def test_scheduling_policy_that_a_fork_resets(self):
        self.assert_cold("policy = os.SCHED_BATCH | os.SCHED_RESET_ON_FORK\n"
                         "os.sched_setscheduler(0, policy, os.sched_param(0))",
                         "has set a scheduling policy",
                         "import effect, os\nprint(os.sched_getscheduler(0))\n")

    def test_trace_functions(self):
        """A module's trace function sees the program's functions, not the program itself."""
        for name in ("settrace", "setprofile"):
            with self.subTest(name):
                self.assert_cold("seen = []\ndef trace(frame, event, _):\n"
                                 "    if frame.f_code.co_filename == sys.argv[0]:\n"
                                 "        seen.append((event, frame.f_code.co_name))\n"
                                 f"sys.{name}(trace)", "has set a trace function",
                                 "import effect\ndef f(): pass\nf()\n"
                                 "print(getattr(effect, 'seen', None))\n")

    def assert_own(self, made, why):
        """Each worker has its own value of `effect.seen`."""
        self.effect(made + "\n")
        for ended in self.run_both("import effect, os\n"
                                   "print(getattr(effect, 'seen', os.environ['RANK']))\n")[:2]:
            self.assertEqual(len(set(ended.out.split())), 2, ended)
        self.assertIn(COLD, ended.err)
        self.assertIn(why, ended.err)

    def test_random_numbers(self):
        for drawn in ("random.random()", "secrets.token_hex()", "os.urandom(8).hex()"):
            with self.subTest(drawn):
                self.assert_own(f"import random, secrets\nseen = {drawn}",
                                "importing effect has drawn random numbers")

    def test_identifiers_that_an_object_keeps(self):
        self.assert_own("import types, uuid\nseen = types.SimpleNamespace(id=uuid.uuid4())",
                        "has generated a UUID")

    @unittest.skipIf(sys.version_info < (3, 10), "Python 3.9 chooses names in another way")
    def test_temporary_files(self):
        for made in ("seen = tempfile.mkdtemp()\natexit.register(os.rmdir, seen)",
                     "file, seen = tempfile.mkstemp()\nos.close(file)\n"
                     "atexit.register(os.unlink, seen)",
                     "folder = tempfile.TemporaryDirectory()\nseen = folder.name"):
            with self.subTest(made):
                self.assert_own(f"import atexit, tempfile\n{made}",
                                "importing effect has created a temporary file or directory")

    def test_temporary_file_that_is_removed(self):
        self.assert_same("import tempfile\nwith tempfile.NamedTemporaryFile(): seen = 1\n",
                         self.PRINT)

    def test_temporary_folder_of_pythons_startup(self):
        (self.site / "sitecustomize.py").write_text(
            "import os, tempfile\n"
            "if os.environ.get('EFFECT'): folder = tempfile.TemporaryDirectory()\n")
        self.effect("pass")
        _, warm, without = self.run_both("import os, sitecustomize\n"
                                         "if hasattr(sitecustomize, 'folder'):\n"
                                         "    print(os.path.basename(sitecustomize.folder.name))\n")
        self.assertEqual(len(set(warm.out.split())), 2, warm)
        self.assertIn("has created a temporary directory", warm.err)
        self.assertNotIn(COLD, without.err)
