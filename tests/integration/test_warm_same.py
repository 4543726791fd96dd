# SPDX-License-Identifier: Apache-2.0
"""--warm: workers that are forked from a process that has imported their modules behave like
workers that are started cold."""
import json
import os
import pathlib
import signal
import textwrap

from harness import read
from warm_case import COLD, WarmCase

DUMP = pathlib.Path(__file__).parent / "warm" / "dump.py"


class Same(WarmCase):
    """Each test runs a program cold and warm, and compares the results."""

    def both(self, *words, nproc=2, options=(), **kwargs):
        kwargs.setdefault("env", self.env)
        cold, warm = (self.run_job(*warm, "--nproc-per-node", nproc, *options, *words, **kwargs)
                      for warm in ((), ("--warm",)))
        self.assertNotIn(COLD, warm.err, warm)
        return cold, warm

    def assert_same(self, *words, **kwargs):
        cold, warm = self.both(*words, **kwargs)
        clean = str.maketrans("", "", "0123456789")  # pids and times
        for first, second in ((cold.code, warm.code),
                              (sorted(cold.out.splitlines()), sorted(warm.out.splitlines())),
                              (cold.err.translate(clean), warm.err.translate(clean))):
            self.assertEqual(first, second, f"\ncold {cold}\nwarm {warm}")
        return warm

    def dumps(self, *words, program=DUMP, **kwargs):
        seen = []
        for name, warm in (("cold", ()), ("warm", ("--warm",))):
            ended = self.run_job(*warm, "--nproc-per-node=2", *words, program,
                                 f"{self.folder}/{name}", env=self.env, **kwargs, code=0)
            self.assertNotIn(COLD, ended.err)
            seen.append([json.loads(read(f"{self.folder}/{name}{rank}").replace(
                f"{self.folder}/{name}", "DUMP")) for rank in (0, 1)])
        return seen

    def test_process(self):
        cold, warm = self.dumps()
        self.assertEqual(cold, warm)

    def test_process_below_a_relative_path(self):
        (self.folder / "here").mkdir()
        (self.folder / "link.py").symlink_to(DUMP)
        cold, warm = self.dumps(program="../link.py", cwd=self.folder / "here")
        self.assertEqual(cold, warm)

    def test_process_of_a_module(self):
        (self.site / "dumped.py").write_text(DUMP.read_text())
        cold, warm = self.dumps("-m", program="dumped")
        self.assertEqual(cold, warm)

    def test_process_of_a_folder(self):
        (self.folder / "program").mkdir()
        (self.folder / "program" / "__main__.py").write_text(DUMP.read_text())
        cold, warm = self.dumps(program=self.folder / "program")
        self.assertEqual(cold, warm)

    def test_process_with_output_in_files(self):
        cold, warm = self.dumps(f"--log-dir={self.folder}/logs", "--redirects=3")
        for dump in cold + warm:  # a folder for each run
            for stream in dump["streams"]:
                stream[-1] = os.path.basename(stream[-1])
        self.assertEqual(cold, warm)

    def test_labelled_output(self):
        warm = self.assert_same(self.python("import os, sys\nprint('from', os.environ['RANK'])\n"
                                            "print('half a line', end='', file=sys.stderr)\n"),
                                options=("--label",))
        self.assertEqual(warm.out.count("from"), 2)

    def test_exception(self):
        warm = self.assert_same(self.python("def f():\n    raise ValueError('no')\nf()\n"), nproc=1)
        self.assertIn("ValueError: no", warm.err)

    def test_syntax_error(self):
        self.assert_same(self.python("print(1)\nx = = 2\n"), nproc=1)

    def test_exit_codes(self):
        for last in ("sys.exit(3)", "sys.exit('a message')", "sys.exit()", "os._exit(4)",
                     "os.kill(os.getpid(), 9)", "raise KeyboardInterrupt", "1/0"):
            with self.subTest(last):
                self.assert_same(self.python(f"import os, sys\n{last}\n"), nproc=1)

    def test_own_excepthook(self):
        self.assert_same(self.python(
            "import sys\n"
            "def hook(kind, error, traceback):\n"
            "    print(kind, error, traceback.tb_frame.f_code.co_name, traceback.tb_next)\n"
            "sys.excepthook = hook\n"
            "raise ValueError('no')\n"), nproc=1)

    def test_what_programs_do_at_their_end(self):
        self.assert_same(self.python(
            "import atexit, threading, time\n"
            "class Kept: pass\n"
            "atexit.register(lambda: print('at exit', __name__, Kept.__module__))\n"
            "ready = threading.Event()\n"
            "def late():\n"
            "    ready.wait()\n"
            "    print('a thread that outlives the program', Kept.__name__)\n"
            "threading.Thread(target=late).start()\n"
            "ready.set()\n"), nproc=1)

    def test_standard_input(self):
        def give(*options):
            with open(self.folder / "input", "w") as file:
                file.write("first\nsecond\n")
            with open(self.folder / "input") as file:
                return self.run_job(*options, "--nproc-per-node=2", "--stdin-rank=1",
                                    self.python("import os, sys\n"
                                                "print(os.environ['RANK'], sys.stdin.read())\n"),
                                    env=self.env, stdin=file)
        cold, warm = give(), give("--warm")
        self.assertEqual(sorted(cold.out.split()), sorted(warm.out.split()), warm)
        self.assertIn("second", warm.out)

    def test_debugger(self):
        """breakpoint() reads from the stdin of the rank that has it, and continues."""
        script = self.python("import os\n"
                             "def f(x):\n"
                             "    if os.environ['RANK'] == '0':\n"
                             "        breakpoint()\n"
                             "    return x + 1\n"
                             "print(f(41))\n")
        for options in ((), ("--stdin-rank=0", "--nproc-per-node=2")):
            with self.subTest(options):
                seen = []
                for warm in ((), ("--warm",)):
                    (self.folder / "input").write_text("p x * 2\nx = 1\nc\n")
                    with open(self.folder / "input") as file:
                        ended = self.run_job(*warm, *options, script, env=self.env, stdin=file)
                    self.assertNotIn(COLD, ended.err)
                    seen.append((ended.code, sorted(ended.out.splitlines())))
                self.assertEqual(*seen)
                self.assertIn("(Pdb) 82", seen[0][1])

    def test_post_mortem(self):
        """The traceback that pdb shows contains only frames of the program."""
        with open(os.devnull) as nothing:
            self.assert_same(self.python(
                "import pdb, sys\n"
                "def f():\n"
                "    raise ValueError\n"
                "try:\n"
                "    f()\n"
                "except ValueError:\n"
                "    pdb.Pdb(stdin=open('/dev/null')).interaction(None, sys.exc_info()[2])\n"),
                nproc=1, stdin=nothing)

    def test_tracing(self):
        """sys.settrace, as used by coverage and debuggers, sees the same lines."""
        self.assert_same(self.python(
            "import sys, threading\n"
            "lines = []\n"
            "def trace(frame, event, argument):\n"
            "    if frame.f_code.co_filename == __file__:\n"
            "        lines.append((event, frame.f_lineno))\n"
            "        return trace\n"
            "def f():\n"
            "    return 1\n"
            "threading.settrace(trace)\n"
            "sys.settrace(trace)\n"
            "f()\n"
            "thread = threading.Thread(target=f)\n"
            "thread.start()\n"
            "thread.join()\n"
            "sys.settrace(None)\n"
            "print(lines)\n"), nproc=1)

    def test_what_modules_leave_is_collected_at_the_end(self):
        """Otherwise libraries that count their objects would report those as leaked."""
        self.cyclic("Node()\nkept = Node()\n")
        warm = self.assert_same(self.python("import gc\nimport cyclic\n"
                                            "print(gc.isenabled(), gc.get_threshold())\n"),
                                nproc=1)
        self.assertIn("collected", warm.out)

    def test_how_often_is_collected_may_be_a_modules_wish(self):
        self.module("cyclic", "import gc\ngc.set_threshold(7, 5, 3)\n")
        program = self.python("import gc\nimport cyclic\nprint(gc.get_threshold())\n")
        warm = self.assert_same(program, nproc=1)
        self.assertIn("(7, 5,", warm.out)

    def test_what_nobody_misses_is_not_collected_at_the_end(self):
        """In that case no function is registered to run at exit."""
        finalizer = "def __del__(self): pass"
        for word, difference in (("pass", 0), (finalizer, 1)):
            self.module("cyclic", f"""
                class Node:
                    {word}
                node = Node()
                node.itself = node
                """)
            cold, warm = self.both(self.python("import atexit\nimport cyclic\n"
                                               "print(atexit._ncallbacks())\n"), nproc=1)
            self.assertEqual(int(warm.out) - int(cold.out), difference, (cold, warm))

    def test_processes_of_the_program(self):
        self.assert_same(self.python(textwrap.dedent("""
            import inspect, multiprocessing, pickle
            class Point:
                def __init__(self, x): self.x = x
                def __eq__(self, other): return self.x == other.x
            def double(x): return 2 * x
            if __name__ == "__main__":
                assert pickle.loads(pickle.dumps(Point(3))) == Point(3)
                assert "2 * x" in inspect.getsource(double)
                for method in ("fork", "spawn", "forkserver"):
                    with multiprocessing.get_context(method).Pool(2) as pool:
                        print(method, pool.map(double, range(4)))
            """)), nproc=1)

    def test_faulthandler(self):
        _, warm = self.both(self.python("import faulthandler, signal, os\n"
                                        "faulthandler.enable()\n"
                                        "os.kill(os.getpid(), signal.SIGSEGV)\n"), nproc=1)
        self.assertEqual(warm.code, 128 + signal.SIGSEGV, warm)
        self.assertIn("Fatal Python error: Segmentation fault", warm.err)
