# SPDX-License-Identifier: Apache-2.0
"""Code shared by the tests of the Python package: jobs under the real launcher whose workers are
functions in the test's own file. MUSTER_BIN is the path of the launcher, MUSTER_COLLECTIVE_LIBRARY
of the library; PYTHONPATH contains the package."""
import os
import subprocess
import sys
import unittest

MUSTER = os.environ["MUSTER_BIN"]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
import cases  # noqa: E402
from ports import free_port  # noqa: E402

DEADLINE = 120.0  # seconds; far more than any step takes, even on a loaded machine


def environment(**more):
    """Without variables that a launcher sets, and with this interpreter for .py files."""
    names = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}
    kept = {name: value for name, value in os.environ.items()
            if name not in names and not name.startswith(("TORCHELASTIC_", "PET_"))}
    return {**kept, "PYTHON_EXEC": sys.executable, "PYTHONDONTWRITEBYTECODE": "1", **more}


class FolderCase(cases.FolderCase):
    def setUp(self):
        super().setUp()
        self.folder = str(self.folder)


class JobCase(unittest.TestCase):
    """Tests whose workers are functions in the same file, marked with @worker."""

    def job(self, ranks, name, *words, options=(), **variables):
        """Runs the worker on this number of ranks; returns the finished launcher."""
        file = sys.modules[type(self).__module__].__file__
        return subprocess.run([MUSTER, f"--nproc-per-node={ranks}", *options, file, name,
                               *map(str, words)], env=environment(**variables), text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=DEADLINE)

    def succeed(self, ranks, name, *words, **more):
        """The same for jobs in which every worker returns. Returns the sorted lines of output."""
        done = self.job(ranks, name, *words, **more)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return sorted(done.stdout.splitlines())

    def by_hand(self, ranks, name):
        """Without a launcher, which would kill the others when one fails; rank 0 serves the store.
        Returns the lines of each rank."""
        variables = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
                     "MASTER_PORT": str(free_port())}
        started = [subprocess.Popen([sys.executable, sys.modules[type(self).__module__].__file__,
                                     name], text=True, stdin=subprocess.DEVNULL,
                                    env=environment(RANK=str(rank), **variables),
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                   for rank in range(ranks)]
        return [process.communicate(timeout=DEADLINE)[0].splitlines() for process in started]


_workers = {}


def worker(function):
    """A function that a job's processes call, with the words from the test."""
    _workers[function.__name__] = function
    return function


def main():
    """Replaces unittest.main(), because the same file contains the test and its workers."""
    if len(sys.argv) > 1 and sys.argv[1] in _workers:
        _workers[sys.argv[1]](*sys.argv[2:])
    else:
        unittest.main(verbosity=2)


def say(text):
    """Prints one line in one write, so that other ranks' output does not split it."""
    os.write(1, (text + "\n").encode())
