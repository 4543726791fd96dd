# SPDX-License-Identifier: Apache-2.0
"""--fold: equal lines of several ranks become one line. --console-ranks: whose lines are shown."""

import contextlib
import os
import shutil
import signal
import time

from harness import JobCase, environment_without, eventually, state

RANKS = 4
TRIES = 10  # the launcher may be interrupted while it reads the ranks, and then shows two groups

# Each rank waits until the launcher is stopped, so that it finds all lines when it continues.
SCRIPT = '''
import os, pathlib, sys, time
rank = os.environ["RANK"]
folder = pathlib.Path(sys.argv[1])
(folder / f"up{rank}").touch()
while not (folder / "go").exists():
    time.sleep(0.005)
print("loading checkpoint")
print(f"loss 0.{int(rank) + 50}")
if rank == "2":
    print("only here")
print("half a line", end="")
sys.stdout.flush()
(folder / f"done{rank}").touch()
while not (folder / "end").exists():
    time.sleep(0.005)
print(" and the rest")
'''


class Folding(JobCase):
    def start(self, *options, **kwargs):
        """Starts the ranks. When it returns, they have printed everything up to the half line and
        the launcher has not read it."""
        for file in self.folder.iterdir():
            if file.is_file():
                file.unlink()
        job = self.job(f"--nproc-per-node={RANKS}", *options, self.python(SCRIPT), self.folder,
                       **kwargs)
        self.wait_for(*(f"up{rank}" for rank in range(RANKS)))
        agent = job.agent()
        os.kill(agent, signal.SIGSTOP)
        eventually(lambda: state(agent) == "T", "the launcher is stopped")
        (self.folder / "go").touch()
        self.wait_for(*(f"done{rank}" for rank in range(RANKS)))
        os.kill(agent, signal.SIGCONT)
        return job

    def shown(self, *options):
        job = self.start(*options)
        (self.folder / "end").touch()
        ended = self.wait_for_exit(job, 0)
        self.assertEqual(ended.err, "")
        return ended.out.splitlines()

    def test_equal_lines_are_shown_once_in_order_and_files_are_complete(self):
        first = ["[ranks 0-3] loading checkpoint", "[ranks 0-3] loss 0.50..0.53"]
        for options in (["-l"], ["--tee=3", "--log-dir", self.folder / "logs"]):
            for _ in range(TRIES):
                shutil.rmtree(self.folder / "logs", ignore_errors=True)
                lines = self.shown("--fold=on", *options)
                if lines[:2] == first:
                    break
            self.assertEqual(lines[:2], first)
            self.assertEqual(lines.count("[default2]:only here"), 1, lines)
            self.assertEqual(sum(line.endswith("half a line and the rest") for line in lines),
                             len(lines) - 3, lines)
        run, = (self.folder / "logs").iterdir()
        log = (run / "attempt_0" / "1" / "stdout.log").read_text()
        self.assertEqual(log, "loading checkpoint\nloss 0.51\nhalf a line and the rest\n")

    def test_without_a_terminal_lines_are_not_folded_by_default(self):
        for options in ([], ["--fold=off"]):
            lines = self.shown("-l", *options)
            self.assertEqual(lines.count("[default1]:loading checkpoint"), 1, lines)
            self.assertEqual(len(lines), 3 * RANKS + 1, lines)

    def on_terminal(self, *options):
        """What a terminal shows before the ranks print their last line."""
        master, slave = os.openpty()
        self.addCleanup(os.close, master)
        job = self.start("-l", *options, stdout=slave, stderr=slave,
                         env=environment_without("NO_COLOR"))
        os.close(slave)
        text = ""
        deadline = time.monotonic() + 60
        while "only here" not in text and time.monotonic() < deadline:
            text += os.read(master, 65536).decode()
        (self.folder / "end").touch()
        with contextlib.suppress(OSError):  # EIO: the end of a terminal
            while more := os.read(master, 65536):
                text += more.decode()
        self.assertEqual(job.process.wait(60), 0)
        return text

    def test_a_terminal_shows_folded_lines_in_time(self):
        folded = "\x1b[1m[ranks 0-3]\x1b[0m loading checkpoint\r\n"
        for _ in range(TRIES):
            text = self.on_terminal()
            if folded in text:
                break
        self.assertIn(folded, text)
        self.assertIn("\x1b[32m[default2]:\x1b[0monly here\r\n", text)
        self.assertNotIn("ranks", self.on_terminal("--fold=off"))

    def test_console_ranks_are_ranks_of_the_job(self):
        ended = self.run_job(*self.puppets(4, "getenv", "RANK", "warn", "err",
                                           options=["-l", "--console-ranks=0,2-9"]), code=0)
        self.assertEqual(sorted(ended.out.splitlines()),
                         [f"[default{rank}]:{rank}" for rank in (0, 2, 3)])
        self.assertEqual(sorted(ended.err.splitlines()),
                         [f"[default{rank}]:err" for rank in (0, 2, 3)])
