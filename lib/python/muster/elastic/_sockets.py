# SPDX-License-Identifier: Apache-2.0
"""Shuts down network connections that other libraries opened, so that their calls fail at once. A
library such as gloo would otherwise wait for its timeout if no rank closes its connection."""
from __future__ import annotations

import contextlib
import os
import socket
from typing import Dict, Set

_FDS = "/proc/self/fd"


def _open_sockets() -> Dict[int, int]:
    """The inodes of this process's sockets, by descriptor."""
    found = {}
    for name in os.listdir(_FDS):
        with contextlib.suppress(OSError):  # closed by another thread
            target = os.readlink(f"{_FDS}/{name}")
            if target.startswith("socket:["):
                found[int(name)] = int(target[len("socket:["):-1])
    return found


def inodes() -> Set[int]:
    """Identifies the sockets that are open now. The kernel may reuse descriptors, but reuses
    inode numbers much later."""
    return set(_open_sockets().values())


def shut_down(wanted: Set[int]) -> None:
    """Shuts down the IPv4 and IPv6 connections with these inodes. Does not close them: their owners
    do. Does not touch listening sockets: gloo aborts the process if accept() fails."""
    for fd, inode in _open_sockets().items():
        if inode in wanted:
            _shut_down_one(fd, inode)


def _shut_down_one(fd: int, inode: int) -> None:
    """Works on a duplicate, because another thread may close the descriptor at any time. The number
    may then belong to another file, which must not be changed."""
    with contextlib.suppress(OSError):
        copy = os.dup(fd)
        try:
            connection = socket.socket(fileno=copy)
        except OSError:  # not a socket, and the constructor did not close it
            os.close(copy)
            return
        with connection:
            is_same = os.fstat(copy).st_ino == inode
            is_listening = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            is_network = connection.family in (socket.AF_INET, socket.AF_INET6)
            if is_same and is_network and not is_listening:
                connection.shutdown(socket.SHUT_RDWR)
