# SPDX-License-Identifier: Apache-2.0
"""Debuggers that attach to a rank: gdb and pdb through musterctl debug, and clients of debugpy
(--debug). Hang timeouts pause meanwhile. That a timeout has passed is seen in a second job, whose
rank 0 is stopped at that time and which has the same timeout."""
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import unittest

from dap import Client
from test_hangs import HERE, HUNG, LIMIT, MUSTER, FolderCase, environment, kill_at_end
from test_many_nodes import Case as NodesCase
from cases import eventually, read

CTL = os.environ["MUSTERCTL"]
DEADLINE = 60
# Each step needs both ranks.
PROGRAM = """
import os, sys, time
import muster

def step(number):
    comm.barrier()
    time.sleep(0.01)
    return number + 1  # the breakpoint

def write(name, number):
    with open(f"{folder}/new{rank}", "w") as file:
        file.write(str(number))
    os.rename(f"{folder}/new{rank}", f"{folder}/{name}{rank}")

rank = int(os.environ["RANK"])
folder = os.environ["SCRATCH"]
answer = 40 + rank
write("pid", os.getpid())
comm = muster.Communicator.from_env(init_timeout=600)
number = 0
while True:
    number = step(number)
    write("step", number)
    flag = memoryview(bytearray(4)).cast("i")
    flag[0] = os.path.exists(f"{folder}/finish")
    comm.all_reduce(flag)
    if flag[0]:
        break
"""
BREAKPOINT = 1 + next(number for number, line in enumerate(PROGRAM.splitlines())
                      if "# the breakpoint" in line)


class Job:
    """A job of two ranks with a hang timeout."""

    def __init__(self, case, name, *options, python=""):
        self.folder = case.folder / name
        self.folder.mkdir()
        self.program = self.folder / "train.py"
        self.program.write_text(PROGRAM)
        with (self.folder / "err").open("wb") as err:
            self.process = kill_at_end(case, subprocess.Popen(
                [MUSTER, "--nproc-per-node=2", f"--hang-timeout={LIMIT}", "--on-hang=stop",
                 "--shutdown-timeout=1", *options, str(self.program)],
                env=environment(str(self.folder), python), stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=err))

    def number(self, name):
        return int(read(self.folder / name) or 0)

    def err(self):
        return read(self.folder / "err")

    def steps(self):
        """Waits for a further step."""
        before = self.number("step0")
        eventually(lambda: self.number("step0") > before, self.err)
        return self

    def hangs(self):
        """Stops rank 0, and waits for the hang timeout."""
        os.kill(self.number("pid0"), signal.SIGSTOP)
        return self.ends()

    def finishes(self):
        (self.folder / "finish").touch()
        return self.ends()

    def ends(self):
        return self.process.wait(timeout=DEADLINE), self.err()

    def debugger(self, case, *words):
        """musterctl debug, with pipes."""
        return kill_at_end(case, subprocess.Popen(
            [CTL, "debug", *words, "--pid", str(self.process.pid)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment("")))

    def debug_port(self):
        said = eventually(lambda: re.search(r"rank \d+ (?:waits for|accepts) a debugger at "
                                            r"127\.0\.0\.1:(\d+)", self.err()), self.err)
        return int(said[1])


def until(process, pattern):
    """Reads the process's output up to the pattern."""
    said = b""
    while not (found := re.search(pattern, said)):
        assert select.select([process.stdout], [], [], DEADLINE)[0], said
        piece = os.read(process.stdout.fileno(), 4096)
        assert piece, said
        said += piece
    return found


def ask(process, text, pattern):
    process.stdin.write(text.encode() + b"\n")
    process.stdin.flush()
    return until(process, pattern)


def connected(port):
    """A client, as soon as debugpy listens."""
    def connect():
        try:
            return Client(port)
        except ConnectionRefusedError:
            return None
    return eventually(connect, f"debugpy listens on port {port}")


def newest_python():
    """Python 3.14; skips the test if it cannot be installed."""
    done = subprocess.run([HERE.parents[1] / "scripts" / "pythons"], capture_output=True, text=True,
                          timeout=600, check=True)
    for line in done.stdout.splitlines():
        version, python, _ = line.split(" ", 2)
        if version == "3.14":
            return python
    raise unittest.SkipTest(done.stderr)


class Debuggers(FolderCase):
    def let_a_timeout_pass(self):
        code, err = Job(self, "other").steps().hangs()
        self.assertEqual(code, HUNG, err)

    def assert_goes_on(self, job):
        """The timeout has not expired, and the job takes further steps."""
        job.steps()
        self.assertNotIn("hang", job.err())

    @unittest.skipUnless(shutil.which("gdb"), "gdb is not there")
    def test_gdb(self):
        job = Job(self, "job").steps()
        gdb = job.debugger(self, "0", "--native")
        shown = ask(gdb, "print (int)getpid()", rb"\$1 = (\d+)")
        self.assertEqual(int(shown[1]), job.number("pid0"))
        self.let_a_timeout_pass()
        gdb.communicate(timeout=DEADLINE)  # at the end of its input, it detaches
        self.assert_goes_on(job)
        code, err = job.hangs()
        self.assertEqual(code, HUNG, err)
        self.assertIn("stopped by a signal", err)

    def test_pdb(self):
        job = Job(self, "job", python=newest_python()).steps()
        pdb = job.debugger(self, "1")
        until(pdb, rb"\(Pdb\) ")
        ask(pdb, "p 'answer', answer", rb"\('answer', 41\)")
        self.let_a_timeout_pass()
        pdb.communicate(b"quit\n", timeout=DEADLINE)
        self.assert_goes_on(job)
        self.assertEqual(job.finishes(), (0, ""))

    def test_pdb_then_a_hang(self):
        job = Job(self, "job", python=newest_python()).steps()
        pdb = job.debugger(self, "0")
        until(pdb, rb"\(Pdb\) ")
        pdb.kill()  # not a proper end
        pdb.wait()
        self.assert_goes_on(job)
        code, err = job.hangs()
        self.assertEqual(code, HUNG, err)

    def test_debugpy(self):
        job = Job(self, "job", "--debug=1", python=debug_python())
        client = connected(job.debug_port())
        frame = client.attach(str(job.program), BREAKPOINT)
        self.assertEqual((frame["name"], client.value("answer", frame)), ("step", "41"))
        self.let_a_timeout_pass()
        client.detach()
        self.assert_goes_on(job)
        code, err = job.finishes()
        self.assertEqual(code, 0, err)

    def test_the_timeout_applies_after_debugpy(self):
        job = Job(self, "job", "--debug", python=debug_python())
        client = connected(job.debug_port())
        client.attach(str(job.program), BREAKPOINT)
        client.detach()
        self.assertEqual(job.steps().hangs()[0], HUNG)

    def test_a_rank_waits_for_a_debugger(self):
        # With --label, muster sees that the job prints nothing.
        job = Job(self, "job", "--debug", "--label", python=debug_python())
        port = job.debug_port()
        self.let_a_timeout_pass()
        self.assertEqual((job.number("step0"), job.process.poll()), (0, None), job.err())
        said = job.debugger(self, "0").communicate(timeout=DEADLINE)[0].decode()
        self.assertIn(f'"connect": {{"host": "127.0.0.1", "port": {port}}}', said)

    def test_a_rank_that_does_not_wait(self):
        job = Job(self, "job", "--debug=0,nowait", python=debug_python()).steps()
        self.assertIn("rank 0 accepts a debugger at 127.0.0.1:", job.err())
        code, err = job.finishes()
        self.assertEqual(code, 0, err)

    def test_without_debugpy_nothing_starts(self):
        python = self.folder / "python"
        python.write_text(f"#!/bin/sh\nexec {sys.executable} -S -I \"$@\"\n")
        python.chmod(0o755)
        job = Job(self, "job", "--debug", python=str(python))
        self.assertEqual(job.ends(), (
            2, f"muster: --debug: {python} cannot import debugpy. Install it: {python} -m pip "
               "install debugpy\n"))

    def test_ranks_that_pdb_cannot_debug(self):
        job = Job(self, "job", python="/usr/bin/python3").steps()
        said = job.debugger(self, "0").communicate(timeout=DEADLINE)[0].decode()
        self.assertIn("pdb can attach only to Python 3.14 or later", said)
        said = job.debugger(self, "2").communicate(timeout=DEADLINE)[0].decode()
        self.assertIn("rank 2 does not run on this host; local ranks: 0, 1", said)
        code, err = job.finishes()
        self.assertEqual(code, 0, err)


def debug_python():
    """A Python with debugpy."""
    python = shutil.which("python3")
    found = subprocess.run([python, "-c", "import debugpy"], capture_output=True, check=False)
    if found.returncode != 0:
        raise unittest.SkipTest(f"{python} has no debugpy")
    return python


class ManyNodes(NodesCase):
    @unittest.skipUnless(shutil.which("gdb"), "gdb is not there")
    def test_timeouts_pause_on_all_nodes(self):
        program = self.folder / "train.py"
        program.write_text(PROGRAM)
        nodes = self.start([f"--hang-timeout={LIMIT}", "--on-hang=stop"], str(program))
        eventually(lambda: all(read(self.folder / f"step{rank}") for rank in range(3)),
                   self.describe)
        gdb = kill_at_end(self, subprocess.Popen(
            [CTL, "debug", "1", "--native", "--pid", str(nodes[1].process.pid)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        ask(gdb, "print (int)getpid()", rb"\$1 = (\d+)")
        code, err = Job(self, "other").steps().hangs()
        self.assertEqual(code, HUNG, err)
        gdb.communicate(timeout=DEADLINE)
        (self.folder / "finish").touch()
        self.ends(0)
        self.assertNotIn("hang", self.describe())

    def test_the_host_of_the_rank_is_named(self):
        program = self.folder / "train.py"
        program.write_text(PROGRAM)
        nodes = self.start([], str(program))
        eventually(lambda: read(self.folder / "step1"), self.describe)
        done = subprocess.run([CTL, "debug", "0", "--native", "--pid", str(nodes[1].process.pid)],
                              capture_output=True, text=True, timeout=DEADLINE, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr,
                         r"rank 0 runs on \S+\. Run there: musterctl debug 0 --run-id ")
        (self.folder / "finish").touch()
        self.ends(0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
