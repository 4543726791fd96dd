# SPDX-License-Identifier: Apache-2.0
"""Starts programs and reads their resource use from the kernel. `muster-bench time` starts
programs that need microsecond timing."""
import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

HUNG_S = 120


class Failed(Exception):
    """A failed measurement. The message is printed to stderr, not into a table."""


class Scratch(tempfile.TemporaryDirectory):
    """A directory in memory, so that no disk I/O is measured."""

    def __init__(self):
        folder = '/dev/shm' if os.access('/dev/shm', os.W_OK) else None
        super().__init__(prefix='muster-bench-', dir=folder, ignore_cleanup_errors=True)


def family_of(pid):
    """The process and all its descendants."""
    family = [pid]
    for each in family:
        try:
            for children in Path(f'/proc/{each}/task').glob('*/children'):
                family += map(int, children.read_text().split())
        except OSError:
            pass  # the process or one of its threads has exited
    return family


def kill_family(pid):
    for each in family_of(pid):
        try:
            os.kill(each, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Child(subprocess.Popen):
    """A started program. The end of a `with` block kills it and its descendants, and reaps it."""

    def __init__(self, command, environ, cpu=None, stdin=subprocess.DEVNULL,
                 stdout=subprocess.DEVNULL):
        allowed = os.sched_getaffinity(0)
        try:
            if cpu is not None:
                os.sched_setaffinity(0, {cpu})  # inherited by the child
            super().__init__([str(word) for word in command], env=environ, stdin=stdin,
                             stdout=stdout, stderr=subprocess.DEVNULL, text=True)
        except OSError as error:
            raise Failed(f'cannot start {command[0]}: {error}') from error
        finally:
            os.sched_setaffinity(0, allowed)

    def stop(self):
        """Sends SIGTERM, so that the program can stop its own children."""
        self.terminate()
        try:
            self.wait(10)
        except subprocess.TimeoutExpired:
            pass  # __exit__ kills it

    def kill_family(self):
        if self.poll() is None:
            kill_family(self.pid)
        self.wait()

    def __exit__(self, *about):
        self.kill_family()
        super().__exit__(*about)


def output_of(command, environ, timeout=HUNG_S):
    """Returns the output of a program. The program must succeed before the timeout."""
    with Child(command, environ, stdout=subprocess.PIPE) as child:
        try:
            text, _ = child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as error:
            raise Failed(f'{command[0]} hung for {timeout} s') from error
        if child.returncode != 0:
            raise Failed(f'{command[0]} exited with code {child.returncode}')
        return text


def tool(peers, *command, timeout=HUNG_S):
    """Returns the output of a muster-bench tool, which is a JSON object on the last line."""
    return json.loads(output_of([peers.tools, *command], peers.environ, timeout).split('\n')[-2])


def wait_until(ready, timeout, what):
    """Polls every few milliseconds. Workers record their own times, so polling affects no
    result."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if found := ready():
            return found
        time.sleep(0.002)
    raise Failed(f'{what}: not within {timeout} s')


def memory_kib(pid, field):
    """VmRSS or VmHWM of a process; 0 if it has exited."""
    try:
        status = Path(f'/proc/{pid}/status').read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines()
                 if line.startswith(field + ':')), 0)


class ForeignMeter:
    """The share of CPU time that other programs have used since the meter was created."""

    def __init__(self):
        self._begin = self._ticks()

    @staticmethod
    def _ticks_of(pid):
        try:
            fields = Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
        except OSError:
            return 0
        return sum(map(int, fields[11:15]))  # the process and its reaped children

    def _ticks(self):
        parts = list(map(int, Path('/proc/stat').read_text().split('\n')[0].split()[1:9]))
        busy = parts[0] + parts[1] + parts[2] + parts[7]  # excludes interrupts
        return busy, sum(parts), sum(map(self._ticks_of, family_of(os.getpid())))

    def percent(self):
        busy, whole, own = (end - begin for begin, end in zip(self._begin, self._ticks()))
        return 100 * max(0, busy - own) / whole if whole else 0
