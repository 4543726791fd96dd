# SPDX-License-Identifier: Apache-2.0
"""Detects operations of gloo that will not return. If a connection closes while gloo sends on it,
gloo informs the receives but not the sends (signalException in gloo/transport/tcp/pair.cc), so the
operation waits until its timeout, 30 minutes by default. The creation of a group waits as long for
a rank that has died. Neither can be interrupted."""
from __future__ import annotations

import contextlib
import os
import platform
import threading
from typing import Dict, List

_TASKS = "/proc/self/task"
_NAME = "pt_gloo_runloop"
# The number of futex(2), and the index of its timeout in /proc/PID/syscall.
_FUTEX = {"x86_64": "202", "aarch64": "98"}.get(platform.machine(), "")
_TIMEOUT = 4

# An operation fails within milliseconds after its connections were shut down, unless this process
# gets no CPU time.
STUCK_SECONDS = 2.0


def _read(path: str) -> str:
    with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
        return file.read().strip()
    return ""


def _threads() -> List[str]:
    """The threads in which gloo's operations run. PyTorch 1.13 does not name them."""
    tids = os.listdir(_TASKS)
    named = [tid for tid in tids if _read(f"{_TASKS}/{tid}/comm") == _NAME]
    pythons = {str(thread.native_id) for thread in threading.enumerate()}
    return named or [tid for tid in tids if tid not in pythons]


def waits() -> Dict[str, str]:
    """The threads that wait in an operation, and where each waits. Such waits have a timeout, waits
    for the next operation have none."""
    found = {}
    for tid in _threads():
        call = _read(f"{_TASKS}/{tid}/syscall")
        words = call.split()
        if words and words[0] == _FUTEX and int(words[_TIMEOUT], 16) != 0:
            found[tid] = call
    return found


class Watch:
    """Call is_stuck() repeatedly while the connections are shut down."""

    def __init__(self) -> None:
        self._waits: Dict[str, str] = {}
        self._since = 0.0

    def is_stuck(self, now: float, is_creating: bool) -> bool:
        """is_creating: this process is creating a group that other ranks have entered, too. True if
        it has not made progress for STUCK_SECONDS."""
        current = {"": "creating"} if is_creating else waits()
        same = {tid: call for tid, call in current.items() if self._waits.get(tid) == call}
        if not same:
            self._waits, self._since = current, now
            return False
        self._waits = same
        return now - self._since >= STUCK_SECONDS
