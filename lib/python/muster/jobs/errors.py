# SPDX-License-Identifier: Apache-2.0
"""Exceptions that muster.launch raises when a job fails."""
from __future__ import annotations

from typing import Any, Dict, Optional, Tuple


class JobError(RuntimeError):
    """A failed job. str(error) ends with the launcher's last output.

    code: the launcher's exit code (see the README); 2 means an invalid option, and nothing was
    started. logs: with log_dir, the job's own directory in it, which contains report.json and
    events.jsonl; None if there is none. report: the contents of report.json; None if there is
    none.
    """

    logs: Optional[str] = None
    report: Optional[Dict[str, Any]] = None

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code

    def __reduce__(self) -> Tuple[object, ...]:
        return type(self), (self.args[0], self.code), vars(self)


class WorkerError(JobError):
    """A rank raised an exception, or exited without a result.

    rank: the rank that failed first. traceback: its traceback as text, or the launcher's message
    about its exit. The exception itself is __cause__; None if it could not be pickled, or if the
    rank was killed.
    """

    def __init__(self, rank: int, traceback: str, code: int) -> None:
        super().__init__(f"rank {rank} failed:\n{traceback.rstrip()}", code)
        self.rank = rank
        self.traceback = traceback

    def __reduce__(self) -> Tuple[object, ...]:
        return type(self), (self.rank, self.traceback, self.code), vars(self)
