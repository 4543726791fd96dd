# SPDX-License-Identifier: Apache-2.0
"""docs/troubleshooting.md: runs its commands with its program and compares the output."""
import os
import re
import shlex
import subprocess
import time
import unittest

from test_hangs import DEADLINE, HERE, MUSTER, FolderCase, environment, spawn

MUSTERCTL = os.environ["MUSTERCTL"]
PAGE = (HERE.parents[1] / "docs/troubleshooting.md").read_text()


def consoles():
    """(command, the lines that it prints), one after the other."""
    for block in re.findall(r"^```console\n(.*?)^```", PAGE, re.M | re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, lines = part.partition("\n")
            yield command, lines.splitlines()


def pattern(line):
    """Numbers, names of run folders and of the node, and the program's path may differ."""
    line = re.sub(r"logs/[^/ ]+", "logs/RUN", line)
    line = re.sub(r"\d+", "9", line)
    return re.escape(line).replace("9", r"\d+").replace("RUN", "[^/ ]+").replace(
        '"train', '"\\S*train').replace(r"node\ box", r"node\ \S+").replace(
        "=box", r"=\S+").replace(r"on\ box", r"on\ \S+")


class Trouble(FolderCase):
    def setUp(self):
        super().setUp()
        program, = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
        (self.folder / "train.py").write_text(program)
        os.mkfifo(self.folder / "part-7.fifo")
        self.job = None

    def start(self, *words):
        return spawn(self, [MUSTER, *words], cwd=self.folder, env=environment(str(self.folder)),
                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                     text=True)

    def watched_job(self):
        """The one that hangs without --hang-timeout: waits until musterctl shows that rank 2 is
        behind."""
        if self.job is None:
            self.job = self.start("--nproc-per-node=4", "train.py", "part-7.fifo")
        return self.job

    def output_of(self, command):
        program, *words = shlex.split(command)
        if program == "muster":
            _, said = self.start(*words).communicate(timeout=DEADLINE)
            return said
        if words[-1] != "logs":
            words += ["--pid", str(self.watched_job().pid)]
        done = subprocess.run([MUSTERCTL, *words], cwd=self.folder, capture_output=True, text=True,
                              env=environment(str(self.folder)), timeout=DEADLINE)
        return done.stdout + done.stderr

    def missing(self, command, lines):
        """The expected but missing output, in the order of the page; and all output."""
        rest = said = self.output_of(command)
        for line in lines:
            found = re.search(pattern(line), rest)
            if not found:
                return f"$ {command}\nwithout: {line}\n{said}"
            rest = rest[found.end():]
        return None

    def test_each_command_says_what_stands_there(self):
        count = 0
        for command, lines in consoles():
            count += 1
            wrong = self.missing(command, lines)
            # A running job's output is compared once all ranks have reached this point.
            give_up = time.monotonic() + DEADLINE
            while wrong and self.job and self.job.poll() is None and time.monotonic() < give_up:
                wrong = self.missing(command, lines)
            self.assertIsNone(wrong, wrong)
        self.assertEqual(count, 8)


if __name__ == "__main__":
    unittest.main()
