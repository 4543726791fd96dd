# SPDX-License-Identifier: Apache-2.0
"""Notes written by workers (bench-floor), with times from the host's monotonic clock: "start
ATTEMPT RANK NANOSECONDS", "crash …" and "member PID RANK NANOSECONDS"."""
from collections import defaultdict
from typing import NamedTuple


class Note(NamedTuple):
    event: str
    number: int  # attempt number; for a member, its pid
    rank: int
    nanoseconds: int


def notes_of(text):
    """Parses complete lines. The last line may be partially written."""
    fields = (line.split(' ') for line in text.split('\n')[:-1])
    return [Note(each[0], *map(int, each[1:])) for each in fields if len(each) == 4]


def recoveries_of(text, workers):
    """For each crash, the milliseconds until the last worker of the next attempt has started.
    Skips a crash that happened before all workers of the attempt had started, or that has no
    complete next attempt."""
    starts, crashes = defaultdict(list), {}
    for note in notes_of(text):
        if note.event == 'crash':
            crashes[note.number] = note.nanoseconds
        else:
            starts[note.number].append(note.nanoseconds)
    recoveries = []
    for attempt, crash in sorted(crashes.items()):
        own, after = starts[attempt], starts[attempt + 1]
        if len(own) == len(after) == workers and crash >= max(own):
            recoveries.append((max(after) - crash) / 1e6)
    return recoveries


def members_of(text):
    """Worker starts in a multi-node job, in order of time."""
    return sorted((note for note in notes_of(text) if note.event == 'member'),
                  key=lambda note: note.nanoseconds)
