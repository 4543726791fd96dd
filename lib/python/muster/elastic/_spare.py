# SPDX-License-Identifier: Apache-2.0
"""A spare worker (muster --spare-workers): waits in elastic.run until it replaces a failed rank."""
from __future__ import annotations

import array
import os
import socket
import sys
from typing import Dict, List, Optional, Set, Tuple

from .. import worker

VARIABLE = "MUSTER_SPARE"
MESSAGE_BYTES = 64
FILES = 4  # the description of the worker, and its three streams


def become_worker() -> None:
    """In a spare worker, waits for the launcher, then changes the environment, the streams and the
    CPUs of this process to those of the rank that it replaces. Exits if the job ends first. No-op
    in other processes."""
    if not os.environ.get(VARIABLE):
        return
    with socket.socket(fileno=os.dup(0)) as control:
        files = _wait(control)
    if files is None:
        os._exit(0)
    text, *streams = files
    with open(text, "rb") as file:
        cpus, changes = parse(file.read())
    for output in (sys.stdout, sys.stderr):
        if output is not None:
            output.flush()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    _bind_threads(cpus)
    worker._start_again()


def _wait(control: socket.socket) -> Optional[List[int]]:
    """The descriptors of the launcher's message; None if the launcher closes the connection."""
    control.send(b"ready")
    files = array.array("i")
    data, parts, _, _ = control.recvmsg(MESSAGE_BYTES, socket.CMSG_LEN(FILES * files.itemsize),
                                        socket.MSG_CMSG_CLOEXEC)
    for level, kind, content in parts:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            files.frombytes(content[:len(content) - len(content) % files.itemsize])
    return list(files) if data and len(files) == FILES else None


def parse(text: bytes) -> Tuple[Set[int], Dict[str, Optional[str]]]:
    """The worker's CPUs, and the environment variables that change; None removes a variable."""
    fields = text.split(b"\0")
    ends = [[int(end) for end in part.split(b"-")] for part in fields[1].split(b",") if part]
    cpus = {number for part in ends for number in range(part[0], part[-1] + 1)}
    changes: Dict[str, Optional[str]] = {}
    for word in fields[3:-1]:
        name, equals, value = os.fsdecode(word).partition("=")
        changes[name] = value if equals else None
    return cpus, changes


def _bind_threads(cpus: Set[int]) -> None:
    """Threads that this process has started keep running on other CPUs if the kernel refuses."""
    if not cpus:
        return
    for thread in os.listdir("/proc/self/task"):
        try:
            os.sched_setaffinity(int(thread), cpus)
        except OSError:
            pass  # the thread has exited, or a cgroup does not allow these CPUs
