# SPDX-License-Identifier: Apache-2.0
"""The answers of a job's ranks, and the job's result or error. Pure: no I/O."""
from __future__ import annotations

import pickle
import re
from typing import Any, Dict, List, Optional, Tuple

from .errors import JobError, WorkerError
from .worker import RESULT

Answer = Tuple[bytes, bytearray]  # kind (RESULT or FAILURE), content

# The line in the launcher's report that names the worker that failed first.
_ROOT_CAUSE = re.compile(r"^muster: .*?: rank (\d+) .*", re.MULTILINE)


def root_cause(text: str) -> Optional[Tuple[int, str]]:
    """The rank that the launcher's report names as the root cause, and the report from that line
    on; None if the report names no rank."""
    found = None
    for found in _ROOT_CAUSE.finditer(text):
        pass
    return (int(found.group(1)), text[found.start():]) if found else None


class Answers:
    """The ranks that have sent HELLO in the newest attempt, and their answers."""

    def __init__(self) -> None:
        self._attempt = -1
        self._by_rank: Dict[int, Optional[Answer]] = {}
        self._order: List[int] = []  # ranks in the order of their answers
        self.wrong: Optional[str] = None  # description of a malformed message, if any

    def hello(self, attempt: int, rank: int) -> None:
        """Records that a worker has started. Discards answers of earlier attempts."""
        if attempt > self._attempt:
            self._attempt = attempt
            self._by_rank.clear()
            self._order.clear()
        if attempt == self._attempt:
            self._by_rank[rank] = None

    def answer(self, attempt: int, rank: int, answer: Answer) -> None:
        """Records a worker's RESULT or FAILURE."""
        if attempt == self._attempt:
            self._by_rank[rank] = answer
            self._order.append(rank)

    def results(self, code: int, report: str) -> List[Any]:
        """The ranks' return values, by rank, for a job with this exit code and report. Raises
        WorkerError or JobError if the job failed."""
        if code == 0 and self.wrong is None and self._by_rank and self._are_results():
            return [self._result(rank, code) for rank in sorted(self._by_rank)]
        raise self._error(code, report)

    def _are_results(self) -> bool:
        return all(answer is not None and answer[0] == RESULT for answer in self._by_rank.values())

    def _result(self, rank: int, code: int) -> Any:
        answer = self._by_rank[rank]
        assert answer is not None
        try:
            return pickle.loads(answer[1])
        except Exception as error:
            raise WorkerError(rank, f"its result cannot be unpickled here: {error!r}",
                              code) from error

    def _failure(self, blamed: Optional[int]) -> Optional[int]:
        """The rank whose exception is shown: the root cause in the launcher's report, or else the
        first rank that raised an exception."""
        failed = [rank for rank in self._order if (self._by_rank[rank] or (RESULT,))[0] != RESULT]
        if blamed in failed:
            return blamed
        return failed[0] if failed and blamed is None else None

    def _error(self, code: int, report: str) -> JobError:
        if self.wrong is not None:
            return JobError(f"a worker sent {self.wrong}", code)
        blamed = root_cause(report)
        rank = self._failure(blamed[0] if blamed else None)
        if rank is not None:
            return self._raised(rank, code)
        if blamed is not None:
            return WorkerError(*blamed, code)
        silent = sorted(rank for rank, answer in self._by_rank.items() if answer is None)
        if code == 0 and silent:
            return WorkerError(silent[0], "exited with code 0 before the function returned", code)
        return JobError(f"muster exited with code {code} without a result\n{report}".rstrip(), code)

    def _raised(self, rank: int, code: int) -> WorkerError:
        answer = self._by_rank[rank]
        assert answer is not None
        text, packed = pickle.loads(answer[1])  # from worker.py: str, bytes or None
        raised = WorkerError(rank, text, code)
        try:
            raised.__cause__ = pickle.loads(packed) if packed is not None else None
        except Exception:
            pass  # this process does not have the exception's class; the text is enough
        return raised
