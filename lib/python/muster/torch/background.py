# SPDX-License-Identifier: Apache-2.0
"""Builds the compiled backend in the background for later jobs, the first time it is missing.

One process per machine and user starts a detached process (detached.py) that holds the lock of
the cache folder until the build is complete. The build may outlive the job. If it is killed, a
later job starts it again. After a failed build, jobs do not try again.
"""
from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from typing import IO, Optional

from .build import FAILED, check
from .built import NAME, cache_folder

# "background": start a build if the module is missing. "never": do not.
VARIABLE = "MUSTER_TORCH_BUILD"
REPORTED = "failed-reported"  # replaces FAILED when a job has reported the failure
LOG = "build.log"
DETACHED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "detached.py")


def start(rank: int) -> None:
    """Starts a build if that is possible and no build has failed or is running. Rank 0 reports it
    on one line. Does nothing without a compiler or with a read-only cache. ValueError: the
    variable has an invalid value."""
    wanted = os.environ.get(VARIABLE) or "background"
    if wanted not in ("background", "never"):
        raise ValueError(f"{VARIABLE} is '{wanted}'; use background or never")
    rank = int(os.environ.get("RANK") or rank)
    if wanted == "never" or int(os.environ.get("LOCAL_RANK") or rank) != 0:
        return
    try:
        check()
        line = start_in(cache_folder(), rank == 0)
    except (ImportError, OSError, subprocess.SubprocessError):
        return
    if line is not None and rank == 0:
        print(f"muster: {line}", file=sys.stderr, flush=True)


def start_in(folder: str, reports: bool) -> Optional[str]:
    """Returns the line to report. reports: whether the caller reports it."""
    log = os.path.join(folder, LOG)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return f"the PyTorch extension is being compiled in the background (log: {log})"
        if os.path.exists(os.path.join(folder, f"{NAME}.so")):
            return None
        if os.path.exists(os.path.join(folder, REPORTED)):
            return None
        if os.path.exists(os.path.join(folder, FAILED)):
            if reports:
                os.rename(os.path.join(folder, FAILED), os.path.join(folder, REPORTED))
            return ("could not compile the PyTorch extension; jobs use the slower Python code and "
                    f"do not try again. See {log}, then run python -m muster.torch.build")
        spawn(log, lock)
    return ("compiling the PyTorch extension in the background, at the lowest priority; later jobs "
            f"will use it (log: {log}; {VARIABLE}=never disables this)")


def spawn(log: str, lock: IO[str]) -> None:
    """Starts the detached process, which inherits the lock. Returns when it has left the job."""
    # muster takes orphans with RANK for processes of that worker.
    environment = {name: value for name, value in os.environ.items() if name != "RANK"}
    paths = [path or os.getcwd() for path in sys.path]
    with open(log, "w") as output:
        subprocess.run([sys.executable, DETACHED, str(lock.fileno()), *paths], env=environment,
                       stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                       pass_fds=[lock.fileno()], start_new_session=True, check=True)
