# SPDX-License-Identifier: Apache-2.0
"""What workers (bench-floor) noted, by the monotonic clock that all processes of a machine share:
"start ATTEMPT RANK NANOSECONDS", "crash …" and "member PID RANK NANOSECONDS"."""
from collections import defaultdict
from typing import NamedTuple


class Note(NamedTuple):
    event: str
    number: int  # of the attempt; of a member the pid
    rank: int
    nanoseconds: int


def notes_of(text):
    """Lines that are complete; the last one may be half written."""
    fields = (line.split(' ') for line in text.split('\n')[:-1])
    return [Note(each[0], *map(int, each[1:])) for each in fields if len(each) == 4]


def recoveries_of(text, workers):
    """For each crash the milliseconds until the last of the workers of the next attempt started. A
    crash before all workers of its own attempt ran, or without a complete next attempt, does not
    count."""
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
    """Starts of the workers of a job of many nodes, in their order."""
    return sorted((note for note in notes_of(text) if note.event == 'member'),
                  key=lambda note: note.nanoseconds)
