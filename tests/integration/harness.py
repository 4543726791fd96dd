# SPDX-License-Identifier: Apache-2.0
"""Runs the real launcher with the scripted worker (tests/support/puppet.cpp) and checks what it
leaves behind. Standard library only. MUSTER_BIN and MUSTER_PUPPET are the paths of the two
programs."""

import atexit
import contextlib
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from ports import free_port  # noqa: E402, F401: for modules that import this one

MUSTER = os.environ["MUSTER_BIN"]
PUPPET = os.environ["MUSTER_PUPPET"]
# Records of the rounds of multi-node jobs must not be in the home directory of the user who runs
# the tests.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="muster-state-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)
DEADLINE = 60.0  # for events that must happen; generous, because the machine may be busy
# All processes of a job are gone this long after its launcher was killed: time to exit on their
# own, the short --shutdown-timeout of such tests, and a margin for a busy machine.
GONE_WITHIN = 10.0


def is_sanitized():
    """Whether the launcher is built with sanitizers, which keep freed memory and need a lot of
    memory."""
    return b"__asan_" in pathlib.Path(MUSTER).read_bytes()


class Ended:
    """A launcher that has exited: code, output, duration."""

    def __init__(self, code, out, err, seconds):
        self.code, self.seconds = code, seconds
        self.bytes = out  # the raw standard output
        self.out, self.err = as_text(out), as_text(err)

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

    def __exit__(self, *_):
        for pid in [self.process.pid, *self.pids()]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                stream.close()


def as_text(data):
    return data.decode(errors="replace") if isinstance(data, bytes) else (data or "")


def no_core_files():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def read(path):
    try:
        return pathlib.Path(path).read_bytes().decode(errors="replace")
    except OSError:
        return ""


def find_pids(token):
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and token in read(f"/proc/{entry}/environ").split("\0"):
            found.append(int(entry))
    return found


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


class JobCase(unittest.TestCase):
    """A test with its own folder and functions to start jobs."""

    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="muster_test_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def job(self, *args, **kwargs):
        job = Job([str(arg) for arg in args], **kwargs)
        self.addCleanup(job.__exit__)
        return job

    def run_job(self, *args, timeout=DEADLINE, **kwargs):
        return self.job(*args, **kwargs).end(timeout)

    def puppets(self, count, *args, options=()):
        """The launcher's arguments for `count` puppets, each with `args`."""
        return ["--nproc-per-node", str(count), *options, "--no-python", PUPPET, *map(str, args)]

    def by_rank(self, *scripts, options=()):
        """The launcher's arguments for one shell script per rank, with $PUPPET and $DIR set in
        each."""
        path = self.folder / f"ranks_{uuid.uuid4().hex[:6]}.sh"
        cases = "".join(f"{rank}) {script} ;;\n" for rank, script in enumerate(scripts))
        path.write_text(
            f"#!/bin/sh\nPUPPET='{PUPPET}'\nDIR='{self.folder}'\ncase $LOCAL_RANK in\n{cases}esac\n"
        )
        path.chmod(0o755)
        return ["--nproc-per-node", str(len(scripts)), *options, str(path)]

    def python(self, text, name="script.py"):
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def wait_for(self, *names):
        """Waits until the workers have created these files in the test's folder."""
        for name in names:
            eventually((self.folder / name).exists, f"file {name}")

    def assert_nothing_left(self, job):
        """No process of the job is alive, after a short wait at most."""
        give_up = time.monotonic() + GONE_WITHIN
        while left := job.pids():
            if time.monotonic() > give_up:
                lines = [f"{pid} {state(pid)} {read(f'/proc/{pid}/cmdline')}" for pid in left]
                self.fail("still alive after the launcher:\n" + "\n".join(lines))
            time.sleep(0.01)
