# SPDX-License-Identifier: Apache-2.0
"""The files that a job's launcher writes below log_dir, for the error that the job ends with."""
from __future__ import annotations

import json
import os
from typing import Any, Dict, FrozenSet, Mapping, Optional, Type

from .errors import JobError

REPORT, EVENTS = "report.json", "events.jsonl"


def names_in(folder: str) -> FrozenSet[str]:
    """None where it is not there yet."""
    try:
        return frozenset(os.listdir(folder))
    except OSError:
        return frozenset()


def launcher_of(folder: str) -> Optional[int]:
    """The pid of the launcher that made this folder; None where nothing tells."""
    try:
        with open(os.path.join(folder, EVENTS), encoding="utf-8") as file:
            first = json.loads(file.readline())
        return int(first["launcher_pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def report_of(folder: str) -> Optional[Dict[str, Any]]:
    """What report.json there says; None where there is none, as on a full disk."""
    try:
        with open(os.path.join(folder, REPORT), encoding="utf-8") as file:
            report = json.load(file)
        return report if isinstance(report, dict) else None
    except (OSError, ValueError):
        return None


class Logs:
    """Of one job. A JobError that leaves the `with` block names its folder and has its report."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        parent = options.get("log_dir")
        self._parent = os.path.abspath(os.fspath(parent)) if parent else None
        self._earlier = names_in(self._parent) if self._parent else frozenset()
        self.launcher_pid = 0

    def folder(self) -> Optional[str]:
        """Several jobs may write below the same log_dir: this one's launcher has made a folder
        that was not there before."""
        if self._parent is None:
            return None
        for name in names_in(self._parent) - self._earlier:
            folder = os.path.join(self._parent, name)
            if launcher_of(folder) == self.launcher_pid:
                return folder
        return None

    def __enter__(self) -> Logs:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 _: Any) -> None:
        if isinstance(error, JobError):
            error.logs = self.folder()
            error.report = report_of(error.logs) if error.logs else None
