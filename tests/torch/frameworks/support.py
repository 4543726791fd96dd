# SPDX-License-Identifier: Apache-2.0
"""Code shared by the tests of third-party frameworks. MUSTER_BIN is the path of the launcher; the
interpreter is that of scripts/frameworks_env. Nothing here needs a network."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.insert(0, os.path.join(HERE, "../../support"))
from ports import free_port  # noqa: E402, F401: for modules that import this one

PROGRAMS = os.path.join(HERE, "programs")
MUSTER = os.environ["MUSTER_BIN"]
COLD = "workers are started cold"
DEADLINE = 600.0  # seconds; far more than any step takes, even on a loaded machine
LAUNCHERS = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}


def environment(**more):
    """Without variables that a launcher sets; offline, and with this interpreter."""
    kept = {name: value for name, value in os.environ.items()
            if name not in LAUNCHERS and not name.startswith(("TORCHELASTIC_", "PET_"))}
    return {**kept, "PYTHON_EXEC": sys.executable, "HF_HUB_OFFLINE": "1",
            "PYTHONDONTWRITEBYTECODE": "1", "TORCH_CPP_LOG_LEVEL": "ERROR",
            "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "MUSTER_TORCH_BUILD": "never", **more}


def program(name):
    return os.path.join(PROGRAMS, name)


class Case(unittest.TestCase):
    """Tests with their own folder that start jobs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="muster-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def start(self, *words, **variables):
        return subprocess.Popen([*map(str, words)], env=environment(**variables), text=True,
                                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def end(self, process):
        """(stdout, stderr) of a job that succeeds."""
        out, err = process.communicate(timeout=DEADLINE)
        self.assertEqual(process.returncode, 0, out + err)
        return out, err

    def muster(self, *words, **variables):
        return self.end(self.start(MUSTER, *words, **variables))

    def two_nodes(self, *words, each=()):
        """Stdout of a job with two agents on this machine; `each`: additional words for each
        agent."""
        port = free_port()
        nodes = [self.start(MUSTER, "--nnodes=2", f"--node-rank={rank}", "--rdzv-backend=c10d",
                            f"--rdzv-endpoint=127.0.0.1:{port}", *(each[rank] if each else ()),
                            *words) for rank in (0, 1)]
        return "".join(self.end(node)[0] for node in nodes)


def lines(text, pattern):
    """The lines with this prefix, sorted, because ranks print in any order."""
    return sorted(line for line in text.splitlines() if re.match(pattern, line))
