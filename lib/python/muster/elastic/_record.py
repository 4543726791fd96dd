# SPDX-License-Identifier: Apache-2.0
"""A rank's record: what no other rank knows, in memory that outlives the process."""
from __future__ import annotations

import os
import struct
import zlib
from typing import Any, Optional

SLOTS = 4
_HEAD = struct.Struct("<qQ")  # number of commits, bytes of data
_SUM = struct.Struct("<4sI")  # version, CRC-32 of the head and the data
_VERSION = b"MR01"
_NOTHING = bytes(_SUM.size + _HEAD.size)


class Record:
    """The record consists of four slots: the intent and the commit for an even number of commits,
    and both for an odd number. The intent is this rank's part of the next commit, written before
    this rank sends its last gradients, because after that the other ranks may commit without it.

    Two slots would not suffice. A rank may die while it writes, when the other ranks have one
    commit more or less than it has: the commit would overwrite the intent, or the other commit.

    memory: a writable buffer (mmap, bytearray) of at least 4096 bytes. Only the process that
    creates the object writes; its forked children do not.
    """

    def __init__(self, memory: Any) -> None:
        self._memory = memory
        self._slot_bytes = len(memory) // SLOTS
        self._owner = os.getpid()

    def write(self, commits: int, data: bytes, is_commit: bool) -> None:
        """MemoryError: the data does not fit into a slot. The slot is valid only after the last
        step, so a process that dies in between leaves no incomplete data that looks complete."""
        needed = len(_NOTHING) + len(data)
        if needed > self._slot_bytes:
            raise MemoryError(
                f"cannot commit: the random generators and buffers of this rank need {needed} bytes"
                f" in each of {SLOTS} places, but muster provides {self._slot_bytes}. Increase "
                "--vault-memory.")
        if os.getpid() != self._owner:
            return
        at = self._start(commits, is_commit)
        head = _HEAD.pack(commits, len(data))
        self._memory[at:at + len(_NOTHING)] = _NOTHING
        self._memory[at + len(_NOTHING):at + needed] = data
        self._memory[at + _SUM.size:at + len(_NOTHING)] = head
        self._memory[at:at + _SUM.size] = _SUM.pack(_VERSION, zlib.crc32(data, zlib.crc32(head)))

    def read(self, commits: int) -> Optional[bytes]:
        """This rank's part of a commit; None if it is missing, incomplete or damaged."""
        found = self._read(commits, True)
        return found if found is not None else self._read(commits, False)

    def has_commit(self, commits: int) -> bool:
        return self._read(commits, True) is not None

    def forget_after(self, commits: int) -> None:
        """Removes later entries: the job returns to this commit and computes the later ones anew,
        possibly with other data."""
        for slot in range(SLOTS):
            at = slot * self._slot_bytes
            if _HEAD.unpack_from(self._memory, at + _SUM.size)[0] > commits:
                self._memory[at:at + len(_NOTHING)] = _NOTHING

    def _start(self, commits: int, is_commit: bool) -> int:
        return (commits % 2 * 2 + is_commit) * self._slot_bytes

    def _read(self, commits: int, is_commit: bool) -> Optional[bytes]:
        at = self._start(commits, is_commit)
        version, crc = _SUM.unpack_from(self._memory, at)
        found, length = _HEAD.unpack_from(self._memory, at + _SUM.size)
        if (version, found) != (_VERSION, commits):
            return None
        data = bytes(self._memory[at + len(_NOTHING):at + len(_NOTHING) + length])
        is_whole = zlib.crc32(data, zlib.crc32(_HEAD.pack(found, length))) == crc
        return data if is_whole else None
