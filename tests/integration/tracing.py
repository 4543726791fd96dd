# SPDX-License-Identifier: Apache-2.0
"""Processes under ptrace: a dead one stays until the test has reaped it, and a live one can be
stopped at a system call."""

import ctypes
import os
import signal

SEIZE, INTERRUPT, SYSCALL, DETACH, PEEK_USER = 0x4206, 0x4207, 24, 17, 3
SYSTEM_CALL_GOOD = 1  # an option: marks stops at system calls as such
ORIGINAL_RAX = 15 * 8  # x86-64: the offset of the system call's number
WALL = 0x40000000


def _ptrace():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    return libc.ptrace


def seize(case, pid, options=None):
    """From now on we, and not its parent, can reap it after its death."""
    if _ptrace()(SEIZE, pid, None, options) != 0:
        case.skipTest("may not trace: " + os.strerror(ctypes.get_errno()))


def stop(case, pid, options=None):
    """Returns once the thread has stopped."""
    seize(case, pid, options)
    _ptrace()(INTERRUPT, pid, None, None)
    os.waitpid(pid, WALL)


class Halt:
    """Stops all threads of a process, even if another process continues it."""

    def __init__(self, case, pid):
        self.threads = sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))
        self.pid, self.ptrace = pid, _ptrace()
        for thread in self.threads:
            stop(case, thread)

    def let_go(self):
        for thread in self.threads:
            self.ptrace(DETACH, thread, None, None)

    def kill(self):
        """No part of it runs any more. Its first thread can be reaped once the others have been."""
        os.kill(self.pid, signal.SIGKILL)
        for thread in reversed(self.threads):
            os.waitpid(thread, WALL)


class Steps:
    """Stops a process at its system calls (x86-64)."""

    def __init__(self, case, pid):
        self.pid, self.ptrace = pid, _ptrace()
        stop(case, pid, SYSTEM_CALL_GOOD)
        self.ptrace(SYSCALL, pid, None, None)

    def until_call(self, numbers):
        """Returns the number of the first of these calls that it is about to make."""
        while True:
            status = os.waitpid(self.pid, WALL)[1]
            stopped_by = os.WSTOPSIG(status)
            call = self.ptrace(PEEK_USER, self.pid, ORIGINAL_RAX, None)
            if stopped_by == signal.SIGTRAP | 0x80 and call in numbers:
                return call
            passed_on = 0 if stopped_by & signal.SIGTRAP == signal.SIGTRAP else stopped_by
            self.ptrace(SYSCALL, self.pid, None, passed_on)

    def let_go(self):
        self.ptrace(DETACH, self.pid, None, None)
