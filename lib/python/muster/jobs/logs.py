# SPDX-License-Identifier: Apache-2.0
"""Finds the files that a job's launcher writes under log_dir, to attach them to the job's error."""
from __future__ import annotations

import json
import os
from typing import Any, Dict, FrozenSet, Mapping, Optional, Type

from .errors import JobError

REPORT, EVENTS = "report.json", "events.jsonl"


def names_in(folder: str) -> FrozenSet[str]:
    """The entries of a directory; empty if it does not exist yet."""
    try:
        return frozenset(os.listdir(folder))
    except OSError:
        return frozenset()


def launcher_of(folder: str) -> Optional[int]:
    """The pid of the launcher that created this directory; None if unknown."""
    try:
        with open(os.path.join(folder, EVENTS), encoding="utf-8") as file:
            first = json.loads(file.readline())
        return int(first["launcher_pid"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def report_of(folder: str) -> Optional[Dict[str, Any]]:
    """The contents of the directory's report.json; None if there is none, for example on a full
    disk."""
    try:
        with open(os.path.join(folder, REPORT), encoding="utf-8") as file:
            report = json.load(file)
        return report if isinstance(report, dict) else None
    except (OSError, ValueError):
        return None


class Logs:
    """The logs of one job. Sets `logs` and `report` of a JobError that leaves the `with` block."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        parent = options.get("log_dir")
        self._parent = os.path.abspath(os.fspath(parent)) if parent else None
        self._earlier = names_in(self._parent) if self._parent else frozenset()
        self.launcher_pid = 0

    def folder(self) -> Optional[str]:
        """This job's log directory, if any. Several jobs may write under the same log_dir, so this
        is the new directory that the job's launcher created."""
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
