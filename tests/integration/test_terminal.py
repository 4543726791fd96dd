# SPDX-License-Identifier: Apache-2.0
"""Jobs on a terminal: debuggers, prompts, the shell's job control, the window size."""

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import termios

from harness import MUSTER, PUPPET, JobCase, eventually, find_pids, read, state


class Terminal:
    """A program on its own terminal, which is its controlling terminal. Keeps everything shown."""

    def __init__(self, case, *command, env=None):
        self.shown = ""
        self.token = f"MUSTER_TEST_TOKEN={os.urandom(8).hex()}"
        variables = dict(os.environ, **(env or {}))
        variables.update([self.token.split("=")], TERM="dumb", PS1="$ ", HISTFILE="/dev/null")
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], command, variables)
        os.set_blocking(self.fd, False)
        case.addCleanup(self.close)

    def close(self):
        for pid in find_pids(self.token):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        os.close(self.fd)

    def type(self, text):
        os.write(self.fd, text.encode())

    def read(self):
        with contextlib.suppress(BlockingIOError, OSError):
            while piece := os.read(self.fd, 65536):
                self.shown += piece.decode(errors="replace")
        return self.shown

    def until(self, pattern):
        """Waits until the pattern is shown, and removes everything up to its end."""
        found = eventually(lambda: re.search(pattern, self.read()),
                           lambda: f"{pattern!r} is not in:\n{self.shown}")
        self.shown = self.shown[found.end():]
        return found

    def code(self):
        """The exit code; keeps reading meanwhile."""
        def ended():
            self.read()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            return (status,) if pid else None

        status, = eventually(ended, lambda: f"did not end:\n{self.shown}")
        self.read()
        return os.waitstatus_to_exitcode(status)

    def set_size(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class Debugging(JobCase):
    def muster(self, *args):
        return Terminal(self, MUSTER, *map(str, args))

    SCRIPT = """
import os
rank = int(os.environ["RANK"])
value = 40 + rank
if rank == 0:
    breakpoint()
print(f"after {rank}", flush=True)
"""

    def test_a_breakpoint_in_rank_0(self):
        script = self.python(self.SCRIPT)
        for options in ([], ["-l"]):
            with self.subTest(options):
                job = self.muster("--nproc-per-node=2", *options, script)
                job.until(r"\(Pdb\) ")
                job.type("p value + 2\n")
                job.until("\n(\\[default0\\]:)?42\r")
                job.until(r"\(Pdb\) ")
                job.type("c\n")
                job.until("after 0")
                self.assertEqual(job.code(), 0, job.shown)

    def test_a_breakpoint_of_torch_distributed(self):
        """torch.distributed.breakpoint() opens /dev/stdin again."""
        script = self.python(self.SCRIPT.replace("breakpoint()", """
    import pdb, sys
    sys.stdin = open("/dev/stdin")
    pdb.Pdb(stdin=sys.stdin, stdout=sys.stdout).set_trace()"""))
        for options in ([], ["-l"]):
            with self.subTest(options):
                job = self.muster("--nproc-per-node=2", *options, script)
                job.until(r"\(Pdb\) ")
                job.type("c\n")
                job.until("after 0")
                self.assertEqual(job.code(), 0, job.shown)

    def test_a_prompt_is_shown_and_answered(self):
        script = self.python("""
import os, sys
if len(sys.argv) > 1:
    import readline
if os.environ["RANK"] == "0":
    print("got", input("answer? "), flush=True)
""")
        for options in ([], ["-l"]):
            for args in ([], ["readline"]):
                with self.subTest(options=options, args=args):
                    job = self.muster("--nproc-per-node=2", *options, script, *args)
                    job.until(r"answer\? ")
                    job.type("forty\n")
                    job.until("got forty")
                    self.assertEqual(job.code(), 0, job.shown)

    def test_ctrl_c_at_the_prompt_ends_the_job_once(self):
        script = self.python(self.SCRIPT)
        job = self.muster("--nproc-per-node=2", script)
        job.until(r"\(Pdb\) ")
        job.type("\x03")
        job.until("muster: interrupted by SIGINT")
        self.assertEqual(job.code(), 130, job.shown)
        self.assertNotIn("interrupted", job.shown)
        self.assertEqual(find_pids(job.token), [])

    def test_the_rank_that_has_the_terminal_learns_of_a_new_size(self):
        script = self.python('''
import os, pathlib, signal, sys
if os.environ["RANK"] == "0":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])
    pathlib.Path(sys.argv[1]).touch()
    signal.sigwait([signal.SIGWINCH])
    print(os.get_terminal_size(0), flush=True)
''')
        for ranks in (1, 2):
            job = self.muster(f"--nproc-per-node={ranks}", script, self.folder / f"up{ranks}")
            eventually((self.folder / f"up{ranks}").exists, "rank 0 runs")
            job.set_size(33, 77)
            job.until(r"os.terminal_size\(columns=77, lines=33\)")
            self.assertEqual(job.code(), 0, job.shown)

    def test_a_failed_rank_0_still_has_its_reason_in_the_report(self):
        script = self.python("import os\nassert os.environ['RANK'] != '0', 'the reason'\n")
        job = self.muster("--nproc-per-node=2", script)
        self.assertEqual(job.code(), 1, job.shown)
        self.assertIn("  | AssertionError: the reason", job.shown)


class JobControl(JobCase):
    def shell(self):
        shell = Terminal(self, "bash", "--norc", "--noprofile", "-i", env={"MUSTER": MUSTER})
        shell.until(r"\$ ")
        return shell

    @staticmethod
    def is_stopped(shell):
        """Launcher and cat: a stop signal takes effect the next time that the process runs."""
        states = [state(pid) for pid in find_pids(shell.token)
                  if read(f"/proc/{pid}/comm") in ("muster\n", "cat\n")]
        return len(states) == 2 and set(states) == {"T"}

    def until_stopped(self, shell):
        """The shell reports it before its next prompt. Until then the job may take a line."""
        eventually(lambda: self.is_stopped(shell), lambda: shell.read())
        shell.type("\n")
        shell.until(r"Stopped.*cat[^$]*\$ ")

    def test_a_job_in_the_background_takes_no_line_from_the_shell(self):
        shell = self.shell()
        shell.type('"$MUSTER" --no-python cat &\n')
        # Like any job: stopped when it reads, and continues to read in the foreground.
        self.until_stopped(shell)
        for number in range(20):
            shell.type(f"echo typed-$(({number}+1000))\n")
            shell.until(f"\ntyped-{number + 1000}\r")
        shell.type("fg\n")
        shell.until("MUSTER.*cat")
        shell.type("a line\n")
        shell.until("a line\r\na line\r")
        shell.type("\x04")
        shell.until(r"\$ ")
        shell.type("echo code-$?\n")
        shell.until("\ncode-0\r")

    def test_ctrl_z_bg_and_fg(self):
        shell = self.shell()
        shell.type('"$MUSTER" --no-python sh -c "echo u\\\\p; exec cat"\n')
        shell.until("\nup\r")
        shell.type("one\n")
        shell.until("one\r\none\r")
        shell.type("\x1a")
        shell.until(r"Stopped.*cat[^$]*\$ ")
        eventually(lambda: self.is_stopped(shell), "all are stopped")
        shell.type("bg\n")
        shell.until(r"cat.*&\r\n\$ ")
        self.until_stopped(shell)
        shell.type("echo typed-$((1+1))\n")
        shell.until("\ntyped-2\r")
        shell.type("fg\n")
        shell.until("MUSTER.*cat")
        shell.type("two\n")
        shell.until("two\r\ntwo\r")
        shell.type("\x04")
        shell.until(r"\$ ")

    def test_a_job_that_reads_nothing_runs_on_in_the_background(self):
        shell = self.shell()
        shell.type(f'"$MUSTER" --no-python {PUPPET} touch {self.folder}/up wait-file '
                   f'{self.folder}/go touch {self.folder}/done exit 0 &\n')
        eventually((self.folder / "up").exists, "the worker runs")
        for number in range(10):  # longer than the watch's polling interval
            shell.type(f"echo typed-$(({number}+1000)); sleep 0.05\n")
            shell.until(f"\ntyped-{number + 1000}\r")
        (self.folder / "go").touch()
        eventually((self.folder / "done").exists, "the worker was not stopped")
