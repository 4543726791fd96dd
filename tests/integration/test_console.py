# SPDX-License-Identifier: Apache-2.0
"""A console that is not read blocks neither the launcher nor its workers nor the other nodes."""

import contextlib
import os
import re
import signal
import subprocess

from harness import PUPPET, JobCase, eventually, read, spawn
from nodes import NEVER, NodesCase

ENDS_WITHIN = 10.0  # a finished job exits whatever its console does


class Console:
    """A terminal or pipe for a job's output. It is not read until read_all()."""

    def __init__(self, case, kind):
        self.reader, self.writer = os.openpty() if kind == "terminal" else os.pipe()
        case.addCleanup(self.close)

    def close(self):
        for fd in (self.reader, self.writer):
            with contextlib.suppress(OSError):
                os.close(fd)

    def fill(self):
        """Fills it to the last byte, as if by an earlier program."""
        os.set_blocking(self.writer, False)
        for size in (4096, 1):
            with contextlib.suppress(BlockingIOError):
                while os.write(self.writer, b"x" * size):
                    pass
        os.set_blocking(self.writer, True)

    def read_until(self, text):
        out = ""
        while text not in out:
            out += os.read(self.reader, 65536).decode(errors="replace")
        return out

    def read_all(self):
        """Reads everything until all writers are gone."""
        os.close(self.writer)
        out = b""
        with contextlib.suppress(OSError):  # EIO: the end of a terminal
            while piece := os.read(self.reader, 65536):
                out += piece
        return out.decode(errors="replace")


class ConsoleNotRead(JobCase):
    def on_console(self, kind, *args, full=False, **kwargs):
        console = Console(self, kind)
        if full:
            console.fill()
        job = self.job(*args, stdout=console.writer, stderr=console.writer, **kwargs)
        return job, console

    def ends(self, job, within=ENDS_WITHIN):
        """The exit code of a job that must exit within this time."""
        try:
            return job.process.wait(within)
        except subprocess.TimeoutExpired:
            self.fail(f"the launcher did not end within {within} s: "
                      f"{read(f'/proc/{job.process.pid}/wchan')}")

    def noisy(self, last):
        """A worker's shell: records its start, writes far more than fits into a console, then
        `last`."""
        return f"touch {self.folder}/start_$TORCHELASTIC_RESTART_COUNT; seq 60000; {last}"

    def test_restarts_go_on(self):
        for kind in ("terminal", "pipe"):
            with self.subTest(kind):
                job, _ = self.on_console(
                    kind, "--tee=3", "--max-restarts=2", "--no-python", "sh", "-c",
                    self.noisy(f"echo > {self.folder}/ended_$TORCHELASTIC_RESTART_COUNT; exit 3"))
                self.wait_for("start_1", "start_2", "ended_2")
                self.assertEqual(self.ends(job), 3)
                for entry in self.folder.iterdir():
                    entry.unlink()

    def test_a_signal_ends_the_job(self):
        for kind in ("terminal", "pipe"):
            with self.subTest(kind):
                ready = self.folder / f"ready_{kind}"
                job, _ = self.on_console(kind, "--tee=3", "--no-python", "sh", "-c",
                                         self.noisy(f"touch {ready}; exec sleep 600"))
                self.wait_for(ready.name)
                job.kill(signal.SIGTERM)
                self.assertEqual(self.ends(job), 143)
                self.assert_nothing_left(job)

    def test_a_console_that_is_full_before_the_start(self):
        # No line from the launcher fits: the warning before the fork, "restarting", the report.
        for kind in ("terminal", "pipe"):
            with self.subTest(kind):
                job, _ = self.on_console(
                    kind, "--tee=3", "--log-dir=/dev/null", "--max-restarts=2", "--log-level=info",
                    *self.puppets(1, "exit", "5"), full=True)
                self.assertEqual(job.process.wait(30), 5)

    def test_a_usage_error(self):
        job, _ = self.on_console("terminal", "--no-such-option", full=True)
        self.assertEqual(self.ends(job), 2)

    def test_the_last_message_of_the_guard(self):
        job, _ = self.on_console("terminal", *self.puppets(1, "touch", self.folder / "up", "wait"),
                                 full=True)
        self.wait_for("up")
        os.kill(job.agent(), signal.SIGKILL)
        self.assertEqual(self.ends(job), 137)
        self.assert_nothing_left(job)

    def test_a_terminal_that_was_stopped_by_its_user_goes_on_where_it_was(self):
        # Ctrl-S and, much later, Ctrl-Q: queued output appears in order, dropped output is counted,
        # and later output is shown.
        job, console = self.on_console("terminal", "--tee=3", "--max-restarts=1", "--no-python",
                                       "sh", "-c", f"""
            if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then seq 60000; exit 4; fi
            touch {self.folder}/second; {PUPPET} wait-file {self.folder}/go; exit 5""")
        self.wait_for("second")
        before = console.read_until("dropped")
        (self.folder / "go").touch()
        after = console.read_all()
        self.assertEqual(job.process.wait(30), 5)
        self.assertRegex(before, r"muster: .*restarting all workers")
        lost = re.findall(r"dropped: (\d+) bytes of the workers' output \(log files are "
                          r"complete\)", before + after)
        self.assertEqual(len(lost), 1)
        # A shown line has its prefix. A lost line counts with or without it, and one line may be
        # truncated.
        prefix = "\x1b[36m[default0]:\x1b[0m"
        shown = set(re.findall(re.escape(prefix) + r"(\d+)\r?\n", before + after))
        missing = [str(number) for number in range(1, 60001) if str(number) not in shown]
        least = sum(len(line) + 1 for line in missing) - len(prefix + "60000\n")
        self.assertGreater(least, 0)
        self.assertLessEqual(least, int(lost[0]))
        self.assertLessEqual(int(lost[0]), least + (len(missing) + 2) * len(prefix))
        self.assertIn("rank 0 exited with code 5", after)

    def test_what_standard_output_did_not_take_is_told_on_standard_error(self):
        console = Console(self, "pipe")
        job = self.job("--tee=1", *self.puppets(1, "lines", "60000", "exit", "0"),
                       stdout=console.writer)
        ended = self.wait_for_exit(job, 0)
        self.assertRegex(ended.err, r"^muster: warning: standard output was not read in time; "
                                    r"dropped: \d+ bytes of the workers' output .*\n$")
        shown = console.read_all()
        lost = int(re.search(r"dropped: (\d+)", ended.err)[1])
        # Lines that were queued count with their prefix, the others as the worker wrote them.
        missing = self.lines(60000)[shown.count("\n"):]
        unfinished = len(shown) - shown.rfind("\n") - 1
        least = sum(len(line) + 1 for line in missing) - unfinished
        most = least + len(missing) * len("[default0]:")
        self.assertLessEqual(least, lost, (least, lost, most))
        self.assertLessEqual(lost, most, (least, lost, most))

    def lines(self, count):
        return subprocess.run([PUPPET, "lines", str(count)], capture_output=True, text=True,
                              check=True).stdout.splitlines()

    def test_a_reader_that_was_stopped(self):
        # Like a log collector that hangs: `muster | collector`.
        reader, writer = os.pipe()
        collector = spawn(self, ["cat"], stdin=reader, stdout=subprocess.DEVNULL)
        os.close(reader)
        collector.send_signal(signal.SIGSTOP)
        job = self.job("--tee=3", "--max-restarts=1", "--no-python", "sh", "-c",
                       self.noisy(f"touch {self.folder}/ended_$TORCHELASTIC_RESTART_COUNT; exit 3"),
                       stdout=writer, stderr=writer)
        os.close(writer)
        self.wait_for("ended_1")
        self.assertEqual(self.ends(job), 3)


class NodesConsole(NodesCase):
    def test_a_leader_whose_console_is_not_read_is_not_lost(self):
        for kind in ("terminal", "pipe"):
            with self.subTest(kind):
                console = Console(self, kind)
                console.fill()
                job = self.cluster("2", conf=f"{NEVER},lease=5",
                                   options=["--max-restarts", "2", "--tee", "3",
                                            "--log-level", "info"])
                leader = job.start(1, popen={"stdout": console.writer, "stderr": console.writer})
                eventually(job.is_hosted, "the first node hosts")
                job.start(2)
                one = job.round(2)
                for restarts in (1, 2):
                    job.order(one, 1, "exit 3")
                    one = job.round(2)
                    self.assertEqual((one.restarts, one.nodes), (restarts, ["n1", "n2"]))
                job.finish()
                self.assertEqual(leader.process.returncode, 0)
