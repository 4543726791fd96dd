# SPDX-License-Identifier: Apache-2.0
"""Steps that ranks have logged (ranks/recovery.py), and what they show about recoveries: how long
each took, and how many steps the job has completed."""
import os
import struct
from bisect import bisect_right
from itertools import islice
from typing import NamedTuple

RECORD = struct.Struct('3q')


class Step(NamedTuple):
    number: int
    nanoseconds: int  # when this rank had completed it
    process: int


class Kill(NamedTuple):
    rank: int
    process: int
    nanoseconds: int


def path_of(folder, rank):
    return folder / f'steps{rank}'


def read_steps(folder, rank):
    """In order of time. The last record may be incomplete."""
    data = path_of(folder, rank).read_bytes()
    complete = data[:len(data) // RECORD.size * RECORD.size]
    return [Step(*each) for each in RECORD.iter_unpack(complete)]


def last_step(folder, rank):
    """None if the rank has not logged a step."""
    try:
        with open(path_of(folder, rank), 'rb') as file:
            size = os.fstat(file.fileno()).st_size // RECORD.size * RECORD.size
            return Step(*RECORD.unpack(os.pread(file.fileno(), RECORD.size, size - RECORD.size)))
    except (OSError, struct.error):
        return None


def recovery_ms(ranks, kill):
    """From the kill until all ranks have completed the first step that the rank's next process has
    completed. None if they have not. ranks: the steps of each rank."""
    def after(steps):
        at = bisect_right(steps, kill.nanoseconds, key=lambda one: one.nanoseconds)
        return (one for one in islice(steps, at, None) if one.process != kill.process)

    first = next(after(ranks[kill.rank]), None)
    if first is None:
        return None
    times = [next((one.nanoseconds for one in after(steps) if one.number == first.number), None)
             for steps in ranks]
    return None if None in times else (max(times) - kill.nanoseconds) / 1e6


def done_by(ranks, nanoseconds):
    """The number of the last step that all ranks had completed at this time, without the steps that
    were lost before it."""
    last = [bisect_right(steps, nanoseconds, key=lambda one: one.nanoseconds) for steps in ranks]
    return min(steps[at - 1].number if at else 0 for at, steps in zip(last, ranks))
