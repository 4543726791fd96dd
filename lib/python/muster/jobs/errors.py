# SPDX-License-Identifier: Apache-2.0
"""What muster.launch raises when a job fails."""
from __future__ import annotations

from typing import Any, Dict, Optional, Tuple


class JobError(RuntimeError):
    """A job that did not succeed. str(error) ends with what the launcher said last.

    code: the launcher's exit code, as in the README; 2: a wrong option, nothing was started.
    logs: with log_dir, the job's own folder in there, which has report.json and events.jsonl; None
    where it was not made. report: what report.json says; None where there is none.
    """

    logs: Optional[str] = None
    report: Optional[Dict[str, Any]] = None

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code

    def __reduce__(self) -> Tuple[object, ...]:
        return type(self), (self.args[0], self.code), vars(self)


class WorkerError(JobError):
    """A rank raised an exception, or ended without a result.

    rank: the rank that failed first. traceback: its traceback as text, or what the launcher said
    of its end. The exception itself is __cause__; None where it could not be pickled, or the rank
    was killed.
    """

    def __init__(self, rank: int, traceback: str, code: int) -> None:
        super().__init__(f"rank {rank} failed:\n{traceback.rstrip()}", code)
        self.rank = rank
        self.traceback = traceback

    def __reduce__(self) -> Tuple[object, ...]:
        return type(self), (self.rank, self.traceback, self.code), vars(self)
