# SPDX-License-Identifier: Apache-2.0
"""monitored_barrier: each rank records its arrival in PyTorch's store; rank 0 reports the ranks
that did not arrive."""
from __future__ import annotations

import time
from datetime import timedelta
from typing import Any, List, Optional, Union

from .. import errors
from .version import VERSION

FOLDER = "muster/monitored"
_DEFAULT_TIMEOUT = 300.0  # seconds
_ARRIVED, _GAVE_UP = "1", "2"
# In PyTorch 1.13, a store wait of less than a second may never return, so poll instead.
_CAN_WAIT = VERSION >= (2, 0)
_POLL_INTERVAL = 0.002  # seconds


class MonitoredBarrier:
    """The barrier of one group. It does not use the communicator, because a timeout would kill the
    communicator. Not thread-safe."""

    def __init__(self, store: Any, rank: int, size: int) -> None:
        self._store, self._rank, self._size = store, rank, size
        self._number = 0  # the number of the current barrier

    def wait(self, timeout: Optional[timedelta] = None, wait_all_ranks: bool = False) -> None:
        """Returns when all ranks have called it. TimedOut: some did not arrive within `timeout` of
        rank 0's call. The error's rank is the first missing rank; its text names that rank, or all
        missing ranks with wait_all_ranks."""
        seconds = timeout.total_seconds() if timeout is not None else _DEFAULT_TIMEOUT
        self._number += 1
        self._store.set(self._key(self._rank), _ARRIVED)
        if self._rank == 0:
            self._lead(seconds, wait_all_ranks)
        else:
            self._follow(seconds)

    def _key(self, name: Union[int, str], number: Optional[int] = None) -> str:
        return f"{FOLDER}/{number or self._number}/{name}"

    def _lead(self, seconds: float, wait_all_ranks: bool) -> None:
        deadline = time.monotonic() + seconds
        missing: List[int] = []
        for rank in range(1, self._size):
            # Wait at least briefly, so that a rank that did arrive is never reported missing.
            if not self._arrived(rank, max(deadline - time.monotonic(), 0.01)):
                missing.append(rank)
                if not wait_all_ranks:
                    break
        self._store.set(self._key("missing"), " ".join(map(str, missing)))
        self._store.set(self._key("end"), _ARRIVED)
        if missing and seconds <= 0:
            raise errors.TimedOut("Rank 0 timed out in monitoredBarrier after 0 ms: "
                                  f"{_names(missing)} had not arrived yet", missing[0])
        if missing:
            raise errors.TimedOut(f"{_names(missing)} failed to pass monitoredBarrier in "
                                  f"{seconds * 1000:.0f} ms", missing[0])
        self._delete(self._number - 1)  # all ranks have reached a later barrier, so none reads it

    def _follow(self, seconds: float) -> None:
        if not self._has(self._key(0), seconds):
            self._store.set(self._key(self._rank), _GAVE_UP)
            raise self._received_none(f"rank 0 did not arrive within {seconds:g} s", 0)
        # Rank 0 waits with the same timeout, counted from its own call.
        if not self._has(self._key("end"), 2 * seconds + 1):
            raise self._received_none("rank 0 arrived, but did not report the missing ranks within "
                                      f"{2 * seconds + 1:g} s", 0)
        missing = [int(rank) for rank in self._store.get(self._key("missing")).split()]
        if missing:
            raise self._received_none(f"{_names(missing)} did not arrive within {seconds:g} s",
                                      missing[0])

    def _received_none(self, why: str, rank: int) -> errors.TimedOut:
        return errors.TimedOut(f"Rank {self._rank} successfully reached monitoredBarrier, but "
                               "received errors while waiting for send/recv from rank 0: " + why,
                               rank)

    def _arrived(self, rank: int, seconds: float) -> bool:
        return (self._has(self._key(rank), seconds) and
                bool(self._store.get(self._key(rank)) == _ARRIVED.encode()))

    def _has(self, key: str, seconds: float) -> bool:
        if not _CAN_WAIT:
            deadline = time.monotonic() + seconds
            while self._store.add(key, 0) == 0:
                if time.monotonic() > deadline:
                    return False
                time.sleep(_POLL_INTERVAL)
            return True
        try:
            self._store.wait([key], timedelta(seconds=seconds))
            return True
        except RuntimeError:  # no specific type; if the store is down, the next call raises
            return False

    def _delete(self, number: int) -> None:
        if number > 0 and hasattr(self._store, "delete_key"):
            for name in [*range(self._size), "missing", "end"]:
                try:
                    self._store.delete_key(self._key(name, number))
                except (RuntimeError, NotImplementedError):
                    return  # this store does not support deletion


def _names(ranks: List[int]) -> str:
    """The ranks, worded as in PyTorch's gloo backend."""
    return ("Rank " if len(ranks) == 1 else "Ranks ") + ", ".join(map(str, ranks))
