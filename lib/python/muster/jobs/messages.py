# SPDX-License-Identifier: Apache-2.0
"""Parses messages from workers as their bytes arrive. Pure: no sockets. worker.py describes the
format."""
from __future__ import annotations

from typing import Dict, List, Tuple

from .worker import FAILURE, GREETING, HEADER, HELLO, RESULT, TRACEBACK_MAX

Message = Tuple[bytes, bytearray]  # kind, content

RESULT_MAX = 1 << 32  # bytes of one rank's pickled result
EXCEPTION_MAX = 1 << 26  # bytes of a pickled exception
LENGTH_MAX: Dict[bytes, int] = {HELLO: GREETING.size, RESULT: RESULT_MAX,
                                FAILURE: 4 * TRACEBACK_MAX + EXCEPTION_MAX}


class BadMessage(Exception):
    """Bytes that are not a valid message of this version."""


class Inbox:
    """Takes bytes from one connection; returns complete messages."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> List[Message]:
        """The messages that are now complete. Raises BadMessage as soon as a header has an unknown
        type or exceeds its limit, without waiting for the content."""
        self._bytes += data
        messages = []
        while len(self._bytes) >= HEADER.size:
            kind, length = HEADER.unpack_from(self._bytes)
            if kind not in LENGTH_MAX:
                raise BadMessage(f"a message of unknown type {kind!r}")
            if length > LENGTH_MAX[kind]:
                raise BadMessage(f"a message of {length} bytes; the limit is {LENGTH_MAX[kind]}. "
                                 "Write larger results to a file and return its path")
            end = HEADER.size + length
            if len(self._bytes) < end:
                break
            messages.append((kind, self._bytes[HEADER.size:end]))
            del self._bytes[:end]
        return messages


def greeting(content: bytearray) -> Tuple[int, int]:
    """The (attempt, rank) in a HELLO."""
    if len(content) != GREETING.size:
        raise BadMessage(f"an invalid greeting of {len(content)} bytes")
    attempt, rank = GREETING.unpack(content)
    return attempt, rank
