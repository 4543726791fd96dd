# SPDX-License-Identifier: Apache-2.0
"""A worker that computes until it is preempted, and then saves. Its argument selects what it does.
It appends what happens to $PREEMPTION_DIR/told, as lines of JSON."""

import json
import os
import pathlib
import random
import sys
import time

from muster import worker

FOLDER = pathlib.Path(os.environ["PREEMPTION_DIR"])
RANK = int(os.environ["RANK"])
DEADLINE = 60.0


def note(**what):
    line = json.dumps({"rank": RANK, **what}) + "\n"
    file = os.open(FOLDER / "told", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, line.encode())
    os.close(file)


def up():
    (FOLDER / f"up{RANK}").touch()


def compute(step, polls=True):
    """A step of random length. True if the worker has to save now."""
    time.sleep(random.random() * 0.004)
    worker.progress(step)
    return polls and worker.preempted()


def save(step):
    with worker.saving(step):
        note(saved=step, left=worker.deadline())


def train(code=worker.REQUEUE):
    """Saves at the step that muster has chosen."""
    until = time.monotonic() + DEADLINE
    step = 0
    while time.monotonic() < until:
        step += 1
        if compute(step):
            save(step)
            sys.exit(code)
        if step == 3:
            up()
    sys.exit(4)


def resumes():
    """Trains until it has saved once, and finishes when it is started again."""
    if (FOLDER / "told").exists():
        note(resumed=int(os.environ["TORCHELASTIC_RESTART_COUNT"]))
        sys.exit(0)
    train()


def starts_late():
    """Polls only when it has imported its modules."""
    time.sleep(2.5)
    train()


def finish():
    """Exits with code 0 after it has saved."""
    train(0)


def first_saves():
    """Rank 0 saves, and the other ranks exit at the same step."""
    step = 0
    while not compute(step := step + 1):
        if step == 3:
            up()
    if RANK == 0:
        save(step)
    else:
        note(exits=step)
    sys.exit(worker.REQUEUE)


def never_polls():
    """The last rank never checks whether it is preempted."""
    if RANK < int(os.environ["WORLD_SIZE"]) - 1:
        train()
    worker.saved(6)  # an ordinary checkpoint
    worker.progress(7)
    up()
    time.sleep(DEADLINE)


def fails():
    """The last rank fails when it should save."""
    if os.environ["TORCHELASTIC_RESTART_COUNT"] != "0":
        note(restarted=True)
    step = 0
    while not compute(step := step + 1):
        if step == 3:
            up()
    if RANK == int(os.environ["WORLD_SIZE"]) - 1:
        sys.exit(9)
    time.sleep(DEADLINE)


def stays():
    """Does not exit after the notice."""
    if os.environ["TORCHELASTIC_RESTART_COUNT"] != "0":
        note(restarted=True)
    step = 0
    while not compute(step := step + 1):
        if step == 3:
            up()
    (FOLDER / f"noticed{RANK}").touch()
    time.sleep(DEADLINE)


def unaware():
    """Knows nothing of preemption: SIGTERM kills it."""
    worker.progress(1)
    up()
    time.sleep(DEADLINE)


globals()[sys.argv[1]]()
