# SPDX-License-Identifier: Apache-2.0
"""A full disk: lost output is reported and counted, and the job continues."""

import os
import re
import subprocess
import unittest

from harness import MUSTER, PUPPET, JobCase, eventually, state

OUTPUT_LOST = 74


class FullDevice(JobCase):
    """/dev/full rejects each write like a full disk."""

    def full(self):
        return self.enterContext(open("/dev/full", "wb"))

    def test_lines_of_workers_that_standard_output_refuses_are_counted(self):
        ended = self.run_job(*self.puppets(2, "lines", "1000", "exit", "0", options=["-l"]),
                             stdout=self.full())
        self.assertEqual((ended.code, ended.err), (OUTPUT_LOST, (
            "muster: warning: cannot write standard output: No space left on device; "
            "lost: 2000 lines of the workers' output\n")), ended)

    def test_the_code_of_a_failed_worker_stays(self):
        ended = self.run_job(*self.puppets(2, "say", "x", "exit", "7", options=["-l"]),
                             stdout=self.full(), code=7)
        self.assertIn("cannot write standard output", ended.err)

    def test_what_log_files_hold_is_not_lost(self):
        ended = self.run_job(*self.puppets(
            2, "say", "x", "exit", "0", options=["--tee=1", "--log-dir", self.folder / "logs"]),
            stdout=self.full())
        self.assertEqual((ended.code, ended.err), (0, (
            "muster: warning: cannot write standard output: No space left on device; "
            "lost: 2 lines of the workers' output (log files are complete)\n")), ended)

    def test_without_any_console_the_exit_code_tells(self):
        self.run_job(*self.puppets(2, "say", "x", "exit", "0", options=["-l"]),
                     stdout=self.full(), stderr=self.full(), code=OUTPUT_LOST)

    def test_bytes_without_a_line_end_are_counted_as_bytes(self):
        ended = self.run_job(*self.puppets(1, "put", "12345", "exit", "0"), stderr=self.full())
        self.assertEqual((ended.code, ended.out), (0, "12345"), ended)
        script = self.python("import os; os.write(2, b'12345')\n")
        master, slave = os.openpty()
        job = self.job(script, stdout=slave, stderr=self.full())
        os.close(slave)
        self.assertEqual(job.process.wait(30), OUTPUT_LOST)
        shown = os.read(master, 4096).decode()
        os.close(master)
        self.assertEqual(shown, "muster: warning: cannot write standard error: No space left on "
                                "device; lost: 5 bytes of the workers' output\r\n")

    def test_commands_that_only_print_fail(self):
        for args in (["--help"], ["--version"], ["--print-man"], ["--print-completion=bash"],
                     *([f"--explain={what}", "x.py"] for what in ("config", "plan", "env"))):
            with self.subTest(args):
                ended = self.run_job(*args, stdout=self.full())
                self.assertEqual((ended.code, ended.err), (
                    OUTPUT_LOST,
                    "muster: cannot write standard output: No space left on device\n"), ended)

    def test_a_reader_that_has_read_enough_is_no_failure(self):
        done = subprocess.run(["bash", "-c", '"$0" --help | head -n 1; echo "${PIPESTATUS[0]}"',
                               MUSTER], capture_output=True, text=True, check=True)
        self.assertEqual((done.stdout.splitlines()[-1], done.stderr), ("0", ""))


@unittest.skipUnless(os.geteuid() == 0, "needs root: mounts a small file system")
class FullFolder(JobCase):
    def setUp(self):
        super().setUp()
        self.small = self.folder / "small"
        self.small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", self.small],
                       check=True)
        self.addCleanup(subprocess.run, ["umount", "--lazy", self.small], check=True)

    def fill(self):
        filler = self.small / "filler"
        with filler.open("wb", buffering=0) as file, self.assertRaises(OSError):
            while file.write(b"x" * 4096):
                pass
        return filler

    def test_a_disk_that_is_full_for_a_while_costs_the_lines_of_that_time(self):
        console = self.small / "console"
        script = self.python(f"""
import fcntl, os, subprocess, termios, time
def lines(first):
    os.write(1, b"".join(b"%d\\n" % number for number in range(first, first + 1000)))
lines(1000)
subprocess.run([{PUPPET!r}, "touch", {str(self.folder / "first")!r},
                "wait-file", {str(self.folder / "full")!r}])
lines(2000)
while fcntl.ioctl(1, termios.FIONREAD, bytes(4)) != bytes(4):  # muster has not read it all
    time.sleep(0.001)
subprocess.run([{PUPPET!r}, "touch", {str(self.folder / "second")!r},
                "wait-file", {str(self.folder / "free")!r}])
lines(3000)
""")
        with console.open("wb", buffering=0) as file:
            job = self.job("-l", script, stdout=file)
        self.wait_for("first")
        eventually(lambda: b"1999" in console.read_bytes(), "the first lines are written")
        filler = self.fill()
        (self.folder / "full").touch()
        self.wait_for("second")
        eventually(lambda: state(job.agent()) == "S", "muster has tried to write them")
        filler.unlink()
        (self.folder / "free").touch()
        ended = self.wait_for_exit(job, OUTPUT_LOST)
        lines = console.read_text().splitlines()
        whole = {f"[default0]:{number}" for number in range(1000, 4000)}
        shown = [line for line in lines if line in whole]
        lost = int(re.search(r"lost: (\d+) lines of the workers' output\n$", ended.err)[1])
        self.assertEqual((len(shown), len(lines) - len(shown) <= 1), (3000 - lost, True), ended)
        self.assertEqual(shown[-1000:], [f"[default0]:{number}" for number in range(3000, 4000)])

    def test_a_full_log_folder_is_named_while_the_job_runs(self):
        # The workers write the files themselves, and know how much does not fit; muster does not.
        self.fill()
        job = self.job(*self.puppets(
            2, "lines", "20000", "wait-file", self.folder / "go", "exit", "0",
            options=["--tee=3", "--log-dir", self.small]))
        said = job.stderr_until(b"on the console\n")
        self.assertRegex(said.decode(), r"muster: warning: cannot write log files to '.*': No space"
                                        r" left on device; worker output may be missing")
        (self.folder / "go").touch()
        self.assertNotIn("cannot write log files", job.end().err)

    def test_a_log_folder_that_fills_up_is_named_at_the_end(self):
        ended = self.run_job(*self.puppets(
            1, "lines", "20000", "exit", "0", options=["--redirects=3", "--log-dir", self.small]))
        self.assertEqual(ended.err.count("cannot write log files to"), 1, ended)

    def test_filtered_copies_that_do_not_fit_are_counted(self):
        script = self.python("import os\nos.write(1, (b'x' * 99 + b'\\n') * 1500)\n")
        ended = self.run_job("--tee=1", "--duplicate-stdout-filters=x", "--log-dir", self.small,
                             script)
        log, = self.small.glob("*/attempt_0/0/stdout.log")
        self.assertEqual(log.stat().st_size, 150_000)
        copy, = self.small.glob("*/attempt_0/filtered_stdout.log")
        lost = 1500 - copy.read_text().count("\n")
        self.assertGreater(lost, 0)
        self.assertEqual(ended.code, 0, ended)
        self.assertRegex(ended.err, rf"cannot write '{copy}': No space left on device; "
                                    rf"lost: {lost} lines\n")
