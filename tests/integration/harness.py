# SPDX-License-Identifier: Apache-2.0
"""Runs the real launcher with the scripted worker (tests/support/puppet.cpp) and checks what it
leaves behind. Standard library only. MUSTER_BIN and MUSTER_PUPPET are the paths of the two
programs."""

import atexit
import contextlib
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from cases import (DEADLINE, FolderCase, children, environment_without, eventually,  # noqa: E402
                   find_pids, limited, no_core_files, read, spawn, state)  # noqa: F401
from ports import free_port  # noqa: E402, F401: for modules that import this one

MUSTER = os.environ["MUSTER_BIN"]
PUPPET = os.environ["MUSTER_PUPPET"]
# Records of the rounds of multi-node jobs must not be in the home directory of the user who runs
# the tests.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="muster-state-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)
# All processes of a job are gone this long after its launcher was killed: time to exit on their
# own, the short --shutdown-timeout of such tests, and a margin for a busy machine.
GONE_WITHIN = 10.0


def is_sanitized():
    """Whether the launcher is built with sanitizers, which keep freed memory and need a lot of
    memory."""
    return b"__asan_" in pathlib.Path(MUSTER).read_bytes()


WAITING = re.compile(r"muster: (after \d+ s: )?(\d+ of \d+ nodes (is|are) here|.*; trying again"
                     r"|warning: waiting for \d+ of \d+ hosts? to answer)")


class Ended:
    """A launcher that has exited: code, output, duration."""

    def __init__(self, code, out, err, seconds):
        self.code, self.seconds = code, seconds
        self.bytes = out  # the raw standard output
        self.out, self.err = as_text(out), as_text(err)

    @property
    def said(self):
        """stderr without the lines that muster prints when it has waited for nodes for a second, or
        for hosts for 5 s. Whether it waits that long depends on the load of the machine."""
        return "".join(line for line in self.err.splitlines(True) if not WAITING.match(line))

    def __str__(self):
        return (f"code {self.code} after {self.seconds:.2f} s\n"
                f"--- out\n{self.out}--- err\n{self.err}")


class Job:
    """A running launcher. All its descendants carry a token in their environment. `prefix` is a
    program with arguments that executes the launcher in its place."""

    def __init__(self, args, env=None, prefix=(), **popen):
        self.token = "MUSTER_TEST_TOKEN=" + uuid.uuid4().hex
        variables = dict(os.environ if env is None else env)
        variables[self.token.split("=")[0]] = self.token.split("=")[1]
        popen.setdefault("stdin", subprocess.DEVNULL)
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        popen.setdefault("preexec_fn", no_core_files)
        self.started = time.monotonic()
        self.process = subprocess.Popen([*prefix, MUSTER, *args], env=variables, **popen)

    def kill(self, signo):
        self.process.send_signal(signo)

    def end(self, timeout=DEADLINE):
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            message = f"the launcher did not end within {timeout} s\n{out}\n{err}"
            raise AssertionError(message) from None
        seconds = time.monotonic() - self.started
        return Ended(self.process.returncode, out or b"", err, seconds)

    def stderr_until(self, pattern):
        """Reads the launcher's standard error until the pattern is found; returns all of it."""
        return self.read_until(self.process.stderr, pattern)

    def stdout_until(self, pattern):
        """The same for its standard output."""
        return self.read_until(self.process.stdout, pattern)

    @staticmethod
    def read_until(stream, pattern):
        said = b""
        while not re.search(pattern, said):
            assert select.select([stream], [], [], DEADLINE)[0], said
            piece = os.read(stream.fileno(), 4096)
            assert piece, said
            said += piece
        return said

    def pids(self):
        """All live processes of the job, including the launcher."""
        return find_pids(self.token)

    def agent(self):
        """The pid of the launcher's second process."""
        for pid in children(self.process.pid):
            if read(f"/proc/{pid}/comm").strip() == "job-agent":
                return pid
        raise AssertionError(f"no agent below {self.process.pid}")

    def __enter__(self):
        return self

    def kill_all(self):
        """Kills all its processes at the same time, as far as signals can."""
        for pid in [self.process.pid, *self.pids()]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def __exit__(self, *_):
        self.kill_all()
        self.process.__exit__(None, None, None)


def as_text(data):
    return data.decode(errors="replace") if isinstance(data, bytes) else (data or "")


class JobCase(FolderCase):
    """A test with its own folder and functions to start jobs."""

    maxDiff = None

    def job(self, *args, **kwargs):
        job = Job([str(arg) for arg in args], **kwargs)
        self.addCleanup(job.__exit__)
        return job

    def run_job(self, *args, timeout=DEADLINE, code=None, **kwargs):
        return self.wait_for_exit(self.job(*args, **kwargs), code, timeout)

    def wait_for_exit(self, job, code=None, timeout=DEADLINE):
        """The ended job, which must exit with `code` if one is given."""
        ended = job.end(timeout)
        if code is not None:
            self.assertEqual(ended.code, code, ended)
        return ended

    def puppets(self, count, *args, options=()):
        """The launcher's arguments for `count` puppets, each with `args`."""
        return ["--nproc-per-node", str(count), *options, "--no-python", PUPPET, *map(str, args)]

    def by_rank(self, *scripts, options=()):
        """The launcher's arguments for one shell script per rank, with $PUPPET and $DIR set in
        each."""
        cases = "".join(f"{rank}) {script} ;;\n" for rank, script in enumerate(scripts))
        path = self.executable(f"#!/bin/sh\nPUPPET='{PUPPET}'\nDIR='{self.folder}'\n"
                               f"case $LOCAL_RANK in\n{cases}esac\n",
                               f"ranks_{uuid.uuid4().hex[:6]}.sh")
        return ["--nproc-per-node", str(len(scripts)), *options, str(path)]

    def python(self, text, name="script.py"):
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def executable(self, text, name="script"):
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def wait_for(self, *names):
        """Waits until the workers have created these files in the test's folder."""
        for name in names:
            eventually((self.folder / name).exists, f"file {name}")

    def kill_launcher(self, job):
        """All other processes of the job exit as well."""
        job.kill(signal.SIGKILL)
        job.process.wait()
        self.assert_nothing_left(job)

    def assert_nothing_left(self, job):
        """No process of the job is alive, after a short wait at most."""
        def left():
            lines = [f"{pid} {state(pid)} {read(f'/proc/{pid}/cmdline')}" for pid in job.pids()]
            return "no process is alive after the launcher; alive:\n" + "\n".join(lines)

        eventually(lambda: not job.pids(), left, GONE_WITHIN)
