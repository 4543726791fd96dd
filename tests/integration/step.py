# SPDX-License-Identifier: Apache-2.0
"""Signals processes like Slurm's step daemon, under the same process name: SIGCONT and then the
signal, to every process of the step, one by one."""

import subprocess
import sys

DAEMON = r"""
import contextlib, ctypes, os, signal, sys
ctypes.CDLL(None).prctl(15, b"slurmstepd", 0, 0, 0)
for line in sys.stdin:
    signo, *pids = map(int, line.split())
    for number in (signal.SIGCONT, signo):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
    print("sent", flush=True)
"""


class Stepd:
    """Lives until the end of the test, because the launcher looks up the sender of a signal."""

    def __init__(self, case):
        self.process = subprocess.Popen([sys.executable, "-c", DAEMON], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        case.addCleanup(self.close)

    def signal(self, signo, pids):
        """Returns when all signals have been sent."""
        self.process.stdin.write(" ".join(str(int(one)) for one in (signo, *pids)) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "sent\n"

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()
