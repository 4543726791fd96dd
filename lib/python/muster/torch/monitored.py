# SPDX-License-Identifier: Apache-2.0
"""monitored_barrier: who comes says so in PyTorch's store, and rank 0 tells who did not."""
import time
from datetime import timedelta

import torch

from .. import errors

FOLDER = "muster/monitored"
_PATIENCE = 300.0  # s, where PyTorch gives none
_HERE, _GAVE_UP = "1", "2"
# A wait of PyTorch 1.13 for less than a second was seen to last for ever.
_CAN_WAIT = int(torch.__version__.split(".")[0]) >= 2
_PAUSE = 0.002  # s between looks, where it cannot


class MonitoredBarrier:
    """Of one group. It does not touch the communicator, which therefore outlives a time-out.
    Called by one thread at a time."""

    def __init__(self, store, rank, size):
        self._store, self._rank, self._size = store, rank, size
        self._number = 0

    def meet(self, timeout=None, wait_all_ranks=False):
        """Returns when all ranks have come. TimedOut: some did not within `timeout` (a timedelta)
        of rank 0's call; its rank and text name the first, with wait_all_ranks all of them."""
        seconds = timeout.total_seconds() if timeout is not None else _PATIENCE
        self._number += 1
        self._store.set(self._key(self._rank), _HERE)
        if self._rank == 0:
            self._watch(seconds, wait_all_ranks)
        else:
            self._follow(seconds)

    def _key(self, word, number=None):
        return f"{FOLDER}/{number or self._number}/{word}"

    def _watch(self, seconds, wait_all_ranks):
        end = time.monotonic() + seconds
        missing = []
        for rank in range(1, self._size):
            # Whoever came is seen also when the time is over.
            if not self._came(rank, max(end - time.monotonic(), 0.01)):
                missing.append(rank)
                if not wait_all_ranks:
                    break
        self._store.set(self._key("missing"), " ".join(map(str, missing)))
        self._store.set(self._key("end"), _HERE)
        if missing:
            raise _missed(missing, seconds)
        self._forget(self._number - 1)

    def _follow(self, seconds):
        if not self._has(self._key(0), seconds):
            self._store.set(self._key(self._rank), _GAVE_UP)
            raise _missed([0], seconds)
        # Rank 0 waits as long as this one, from when it came.
        if not self._has(self._key("end"), 2 * seconds + 1):
            raise errors.TimedOut(f"monitored_barrier: rank 0 came, but did not tell within "
                                  f"{2 * seconds + 1:g} s who is missing", 0)
        missing = [int(rank) for rank in self._store.get(self._key("missing")).split()]
        if missing:
            raise _missed(missing, seconds)

    def _came(self, rank, seconds):
        return (self._has(self._key(rank), seconds) and
                self._store.get(self._key(rank)) == _HERE.encode())

    def _has(self, key, seconds):
        if not _CAN_WAIT:
            end = time.monotonic() + seconds
            while self._store.add(key, 0) == 0:
                if time.monotonic() > end:
                    return False
                time.sleep(_PAUSE)
            return True
        try:
            self._store.wait([key], timedelta(seconds=seconds))
            return True
        except RuntimeError:  # of no own type; where the store is gone, the next call says so
            return False

    def _forget(self, number):
        """All have come to a later one: nobody reads this any more."""
        if number > 0 and hasattr(self._store, "delete_key"):
            for word in [*range(self._size), "missing", "end"]:
                try:
                    self._store.delete_key(self._key(word, number))
                except (RuntimeError, NotImplementedError):
                    return  # this store keeps what it has


def _missed(ranks, seconds):
    words = ", ".join(f"rank {rank}" for rank in ranks)
    return errors.TimedOut(f"monitored_barrier: {words} did not come within {seconds:g} s",
                           ranks[0])
