# SPDX-License-Identifier: Apache-2.0
"""Code shared by Python tests: waits for events, a folder for each test, processes, and their
limits. Standard library only."""
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
import unittest


def refuse_to_run_as_script(path):
    """Exits if Python runs this test file as a program but the file does not start its tests.
    Otherwise Python would run no test and exit with 0."""
    path = pathlib.Path(path or "")
    if path.match("test_*.py") and "__main__" not in path.read_text():
        sys.exit(f"run this instead, in {path.resolve().parent}: python3 -m unittest {path.stem}")


refuse_to_run_as_script(getattr(sys.modules["__main__"], "__file__", None))

DEADLINE = 60.0  # for events that must happen; generous, because the machine may be busy


def eventually(check, what, within=DEADLINE):
    """Waits until check() returns a true value, and returns it. `what` is a text, or a function
    that returns one."""
    give_up = time.monotonic() + within
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > give_up:
            text = what() if callable(what) else what
            raise AssertionError(f"did not happen within {within} s: {text}")
        time.sleep(0.005)


class FolderCase(unittest.TestCase):
    """A test with its own folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="muster_test_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


def spawn(case, command, **popen):
    """A process that is killed at the end of the test."""
    return kill_at_end(case, subprocess.Popen(command, **popen))


def kill_at_end(case, process):
    case.addCleanup(process.__exit__, None, None, None)
    case.addCleanup(process.kill)
    return process


def read(path):
    try:
        return pathlib.Path(path).read_bytes().decode(errors="replace")
    except OSError:
        return ""


def find_pids(token):
    """The processes that have this NAME=VALUE in their environment."""
    return [int(entry) for entry in os.listdir("/proc")
            if entry.isdigit() and token in read(f"/proc/{entry}/environ").split("\0")]


def children(pid):
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            stat = read(f"/proc/{entry}/stat")
            if stat and int(stat.rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry))
    return found


def state(pid):
    stat = read(f"/proc/{pid}/stat")
    return stat.rpartition(")")[2].split()[0] if stat else ""


def limited(what, soft, hard=None):
    """A preexec_fn: no core files, and this limit."""
    def lower():
        no_core_files()
        resource.setrlimit(what, (soft, soft if hard is None else hard))
    return lower


def no_core_files():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def environment_without(*names, **more):
    """This process's environment without these variables, and with more."""
    return {**{name: value for name, value in os.environ.items() if name not in names}, **more}
